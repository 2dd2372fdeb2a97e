"""A small causal transformer written by hand, and the same one with a fault planted in it.

rootdk check examples/sick_transformer.py:healthy
rootdk check examples/sick_transformer.py:sick
"""

import math

import torch
from torch import Tensor, nn


class Attention(nn.Module):
    """Causal self-attention that divides its scores by the root of head_dim."""

    def __init__(self, width: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = width // num_heads
        self.project_in = nn.Linear(width, 3 * width)
        self.project_out = nn.Linear(width, width)

    def heads(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        batch, length, _ = hidden.shape
        split = self.project_in(hidden).view(batch, length, 3, self.num_heads, self.head_dim)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        return query, key, value

    def forward(self, hidden: Tensor) -> Tensor:
        query, key, value = self.heads(hidden)
        scores = query @ key.transpose(-2, -1) / math.sqrt(self.head_dim)
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        weights = scores.masked_fill(future, -math.inf).softmax(dim=-1)
        return self.project_out((weights @ value).transpose(1, 2).flatten(2))


class AttentionScaledTwice(Attention):
    """The fault: the queries come scaled already, and the scores are divided once more."""

    def heads(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = super().heads(hidden)
        return query * self.head_dim**-0.5, key, value


class Block(nn.Module):
    def __init__(self, width: int, attention: nn.Module) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = attention
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = hidden + self.attention(self.norm_1(hidden))
        return hidden + self.feed_forward(self.norm_2(hidden))


class Transformer(nn.Module):
    def __init__(self, attention: type[Attention], *, width: int = 256, num_heads: int = 4) -> None:
        super().__init__()
        self.embed = nn.Embedding(1000, width)
        self.blocks = nn.Sequential(*(Block(width, attention(width, num_heads)) for _ in range(3)))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.norm(self.blocks(self.embed(tokens)))


def healthy() -> tuple[nn.Module, Tensor]:
    """Return the model without the fault, and one sequence of 100 tokens."""
    return _build(Attention)


def sick() -> tuple[nn.Module, Tensor]:
    """Return the model with the fault, and the same tokens."""
    return _build(AttentionScaledTwice)


def _build(attention: type[Attention]) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    model = Transformer(attention).eval()
    return model, torch.randint(0, 1000, (1, 100))
