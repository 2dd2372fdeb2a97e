"""Attention as it should be, in the spellings that people use: softmax(q·kᵀ/√head_dim)·v.

The faulty classes in the other files are children of these, with one line made wrong.
"""

import math

import torch
import torch.nn.functional as F
from faults.transformer import Attention, Size
from torch import Tensor, nn

CODE = None
TITLE = "nothing"


def scale(size: Size) -> float:
    return size.standard


class Matmul(Attention):
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1)
        scores = scores / math.sqrt(q.shape[-1])
        weights = scores.softmax(dim=-1)
        return weights @ v


class OneLine(Attention):
    """Everything in one expression, as in many a blog post."""

    def attend(self, q, k, v):
        return torch.softmax(q @ k.transpose(-2, -1) / q.size(-1) ** 0.5, dim=-1) @ v


class QueryFactor(Attention):
    """``self.scale = head_dim ** -0.5``, on q."""

    def __init__(self, width, heads):
        super().__init__(width, heads)
        self.scale = self.head_dim**-0.5

    def attend(self, q, k, v):
        q = q * self.scale
        scores = torch.matmul(q, k.transpose(-1, -2))
        weights = F.softmax(scores, dim=-1)
        return torch.matmul(weights, v)


class ScoreFactor(Attention):
    """``self.scale = head_dim ** -0.5``, on the scores."""

    def __init__(self, width, heads):
        super().__init__(width, heads)
        self.scale = self.head_dim**-0.5

    def attend(self, q, k, v):
        scores = torch.matmul(q, k.mT)
        scores = scores * self.scale
        weights = F.softmax(scores, dim=-1)
        return torch.matmul(weights, v)


class Temperature(Attention):
    """A temperature to divide by, as in the first port of the paper."""

    def __init__(self, width, heads):
        super().__init__(width, heads)
        self.temperature = self.head_dim**0.5

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1)
        scores = scores / self.temperature
        return nn.functional.softmax(scores, dim=3) @ v


class TensorSqrt(Attention):
    """The root as a tensor, made anew in each forward."""

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1)
        scores = scores / torch.sqrt(torch.tensor(q.shape[-1], dtype=torch.float32))
        return scores.softmax(-1) @ v


class Buffer(Attention):
    """The scale in a buffer."""

    def __init__(self, width, heads):
        super().__init__(width, heads)
        self.register_buffer("scale", torch.tensor(self.head_dim**-0.5))

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1)
        scores = scores * self.scale
        return scores.softmax(dim=-1) @ v


class SoftmaxModule(Attention):
    """``nn.Softmax`` as a part of the layer."""

    def __init__(self, width, heads):
        super().__init__(width, heads)
        self.scale = self.head_dim**-0.5
        self.softmax = nn.Softmax(dim=-1)

    def attend(self, q, k, v):
        scores = torch.matmul(q * self.scale, k.transpose(-1, -2))
        weights = self.softmax(scores)
        return torch.matmul(weights, v)


class Causal(Attention):
    """A decoder's: later tokens are hidden."""

    hides_later = True

    def hidden(self, scores):
        return torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        scores = scores.masked_fill(self.hidden(scores), float("-inf"))
        weights = scores.softmax(dim=-1)
        return weights @ v


class Einsum(Attention):
    def attend(self, q, k, v):
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
        scores = scores * q.shape[-1] ** -0.5
        weights = torch.softmax(scores, dim=-1)
        return torch.einsum("bhqk,bhkd->bhqd", weights, v)


class EinsumBshd(Attention):
    """The heads stay behind the tokens, and einsum finds them."""

    def split(self, x):
        return x.view(*x.shape[:2], self.heads, self.head_dim)

    def merge(self, x):
        return x.flatten(2)

    def attend(self, q, k, v):
        q = q * self.head_dim**-0.5
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k)
        weights = F.softmax(scores, dim=-1)
        return torch.einsum("bhqk,bkhd->bqhd", weights, v)


class Merged(Attention):
    """Batch and heads in one axis: (batch·heads, tokens, head_dim)."""

    def split(self, x):
        return super().split(x).flatten(0, 1)

    def merge(self, x):
        return super().merge(x.unflatten(0, (-1, self.heads)))


class Baddbmm(Merged):
    def attend(self, q, k, v):
        empty = q.new_empty(q.shape[0], q.shape[1], k.shape[1])
        scale = self.head_dim**-0.5
        scores = torch.baddbmm(empty, q, k.transpose(1, 2), beta=0, alpha=scale)
        weights = scores.softmax(dim=-1)
        return torch.bmm(weights, v)


class Bmm(Merged):
    """Head-merged, and in place where it can be."""

    def attend(self, q, k, v):
        scores = torch.bmm(q, k.transpose(1, 2))
        scores.div_(math.sqrt(self.head_dim))
        weights = F.softmax(scores, dim=2)
        return torch.bmm(weights, v)


class BothSides(Attention):
    """The fourth root on either side, for the sake of half precision."""

    def __init__(self, width, heads):
        super().__init__(width, heads)
        self.scale = self.head_dim**-0.25

    def attend(self, q, k, v):
        q = q * self.scale
        k = k * self.scale
        scores = q @ k.transpose(-2, -1)
        return scores.softmax(dim=-1) @ v


class SumOfProducts(Attention):
    """No matrix product at all."""

    def attend(self, q, k, v):
        scores = (q.unsqueeze(-2) * k.unsqueeze(-3)).sum(dim=-1)
        scores = scores / math.sqrt(self.head_dim)
        weights = scores.softmax(dim=-1)
        return weights @ v


class ExpSumDiv(Attention):
    """The softmax by hand, the maximum taken off first."""

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        exponentials = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
        weights = exponentials / exponentials.sum(dim=-1, keepdim=True)
        return weights @ v


class ExpNormalize(Attention):
    """The softmax by hand, the division left to ``F.normalize``."""

    def attend(self, q, k, v):
        scores = torch.einsum("bhid,bhjd->bhij", q, k) * self.head_dim**-0.5
        exponentials = (scores - scores.max(dim=-1, keepdim=True).values).exp()
        weights = F.normalize(exponentials, p=1.0, dim=-1)
        return torch.einsum("bhij,bhjd->bhid", weights, v)


class ExpInPlace(Merged):
    """The softmax by hand, head-merged and in place."""

    def attend(self, q, k, v):
        scores = torch.bmm(q * self.head_dim**-0.5, k.mT)
        scores.sub_(scores.max(dim=-1, keepdim=True)[0])
        scores.exp_()
        scores.div_(scores.sum(dim=-1, keepdim=True))
        return torch.bmm(scores, v)


class Sdpa(Attention):
    """The library's default, which is 1/√head_dim."""

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)


class SdpaScale(Attention):
    def attend(self, q, k, v):
        scale = 1 / math.sqrt(self.head_dim)
        return F.scaled_dot_product_attention(q, k, v, scale=scale)


class SdpaQuery(Attention):
    """q carries the factor, and the library is told to add none."""

    def __init__(self, width, heads):
        super().__init__(width, heads)
        self.scale = self.head_dim**-0.5

    def attend(self, q, k, v):
        q = q * self.scale
        return F.scaled_dot_product_attention(q, k, v, scale=1.0)


class PackedProjection(Attention):
    """One projection for all of q, k and v, as nn.MultiheadAttention keeps it."""

    def __init__(self, width, heads):
        nn.Module.__init__(self)
        self.width, self.heads, self.head_dim = width, heads, width // heads
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def weights(self) -> list[tuple[Tensor, Tensor]]:
        inner = self.attention
        packed = zip(inner.in_proj_weight.chunk(3), inner.in_proj_bias.chunk(3), strict=True)
        return [*packed, (inner.out_proj.weight, inner.out_proj.bias)]


class Mha(PackedProjection):
    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


class MhaWeights(PackedProjection):
    """Asked for its weights, the module cannot use a fused kernel."""

    def forward(self, x):
        return self.attention(x, x, x, need_weights=True)[0]


class MhaFunctional(PackedProjection):
    """The function behind the module, called as the module calls it."""

    dropout = 0.1

    def arguments(self) -> dict:
        inner = self.attention
        return {
            "embed_dim_to_check": self.width,
            "num_heads": self.heads,
            "in_proj_weight": inner.in_proj_weight,
            "in_proj_bias": inner.in_proj_bias,
            "bias_k": None,
            "bias_v": None,
            "add_zero_attn": False,
            "dropout_p": self.dropout,
            "out_proj_weight": inner.out_proj.weight,
            "out_proj_bias": inner.out_proj.bias,
            "need_weights": False,
        }

    def forward(self, x):
        x = x.transpose(0, 1)
        training = self.training
        x, _ = F.multi_head_attention_forward(x, x, x, training=training, **self.arguments())
        return x.transpose(0, 1)


class DropoutFunction(Attention):
    """Dropout on the weights, which knows when it is not training."""

    dropout = 0.1

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        weights = scores.softmax(dim=-1)
        weights = F.dropout(weights, self.dropout, training=self.training)
        return weights @ v


class DropoutModule(Attention):
    """Dropout on the weights, by a module."""

    def __init__(self, width, heads):
        super().__init__(width, heads)
        self.dropout = 0.1
        self.attention_dropout = nn.Dropout(self.dropout)

    def attend(self, q, k, v):
        scores = torch.einsum("bhqd,bhkd->bhqk", q * self.head_dim**-0.5, k)
        weights = self.attention_dropout(scores.softmax(dim=-1))
        return torch.einsum("bhqk,bhkd->bhqd", weights, v)


class DropoutSdpa(Attention):
    """The fused kernel has no training flag, so the caller decides."""

    dropout = 0.1

    def attend(self, q, k, v):
        p = self.dropout if self.training else 0.0
        return F.scaled_dot_product_attention(q, k, v, dropout_p=p)
