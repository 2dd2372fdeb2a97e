"""A small transformer whose attention is one method: what to do with q, k and v.

The sizes of a model are pairwise different and no two laws of the scale agree on them, so a
factor can be right, or wrong, for one reason only.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

__all__ = ["INITS", "SIZES", "Attention", "Size", "Transformer", "build"]

INITS = ("default", "xavier", "normal002", "unit")
VOCABULARY = 101
BLOCKS = 2


@dataclass(frozen=True, kw_only=True)
class Size:
    """The sizes of one transformer and of the tokens it is given."""

    width: int
    heads: int
    batch: int
    length: int

    @property
    def head_dim(self) -> int:
        return self.width // self.heads

    @property
    def standard(self) -> float:
        """The scale that is right: 1/√head_dim."""
        return self.head_dim**-0.5


SIZES = {
    64: Size(width=64, heads=4, batch=3, length=11),
    768: Size(width=768, heads=12, batch=2, length=37),
}


class Attention(nn.Module):
    """Self-attention: four projections around ``attend``, which a spelling overrides.

    ``attend`` sees q, k and v as ``split`` leaves them: (batch, heads, tokens, head_dim) unless
    the spelling arranges them otherwise. ``entry_std`` and ``input_std`` are read by ``build``:
    what the entries of q and k, or those of the input, are to be like instead of standard.
    ``hides_later`` says that the spelling has a causal mask.
    """

    entry_std: float | None = None
    input_std: float | None = None
    hides_later = False

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.width, self.heads, self.head_dim = width, heads, width // heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (self.split(project(x)) for project in (self.query, self.key, self.value))
        return self.output(self.merge(self.attend(q, k, v)))

    def split(self, x: Tensor) -> Tensor:
        """(batch, tokens, width) → (batch, heads, tokens, head_dim)."""
        return x.view(*x.shape[:2], self.heads, self.head_dim).transpose(1, 2)

    def merge(self, x: Tensor) -> Tensor:
        """(batch, heads, tokens, head_dim) → (batch, tokens, width)."""
        return x.transpose(1, 2).flatten(2)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        raise NotImplementedError

    def weights(self) -> list[tuple[Tensor, Tensor]]:
        """Weight and bias of the projections to query, key, value and output."""
        linears = (self.query, self.key, self.value, self.output)
        return [(linear.weight, linear.bias) for linear in linears]


class Block(nn.Module):
    """Attention and an MLP, each behind a layer norm and beside a residual."""

    def __init__(self, attention: type[Attention], width: int, heads: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = attention(width, heads)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class Transformer(nn.Module):
    """Token and position embeddings, two blocks, a norm and a head."""

    def __init__(self, attention: type[Attention], size: Size) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, size.width)
        self.positions = nn.Embedding(size.length, size.width)
        blocks = (Block(attention, size.width, size.heads) for _ in range(BLOCKS))
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def initialise(weight: Tensor, bias: Tensor | None, init: str) -> None:
    """Fill one projection; ``default`` leaves what its constructor chose."""
    if init == "default":
        return
    if init == "xavier":
        nn.init.xavier_uniform_(weight)
    elif init == "normal002":
        nn.init.normal_(weight, std=0.02)
    elif init == "unit":
        nn.init.normal_(weight, std=weight.shape[1] ** -0.5)
    else:
        raise ValueError(f"init is {init!r}, not one of {INITS}")
    if bias is not None:
        nn.init.zeros_(bias)


def gain(weight: Tensor) -> float:
    """The standard deviation of the projection's outputs for inputs of standard deviation 1."""
    return float(weight.norm()) / math.sqrt(weight.shape[0])


@torch.no_grad()
def build(
    attention: type[Attention], *, init: str, size: Size, seed: int
) -> tuple[Transformer, Tensor]:
    """A transformer in evaluation mode and its tokens."""
    torch.manual_seed(seed)
    model = Transformer(attention, size)
    for module in model.modules():
        if isinstance(module, nn.Linear):
            initialise(module.weight, module.bias, init)
    for block in model.blocks:
        layer = block.attention
        projections = layer.weights()
        if not isinstance(getattr(layer, "query", None), nn.Linear):
            for weight, bias in projections:
                initialise(weight, bias, init)
        query_and_key = projections[:2]
        if layer.entry_std is not None:
            for weight, _ in query_and_key:
                weight.mul_(layer.entry_std / gain(weight))
        if layer.input_std is not None:
            mean_gain = math.sqrt(math.prod(gain(weight) for weight, _ in query_and_key))
            layer.boost = layer.input_std / mean_gain
    tokens = torch.randint(VOCABULARY, (size.batch, size.length))
    return model.eval(), tokens
