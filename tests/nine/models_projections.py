"""Scalars right after a projection: the projection's own, or the attention's."""

import math

import torch
import torch.nn.functional as F
from lookalikes.design import SCALE, Design, attention
from nine.case import Silent, silent
from torch import nn


class Projected(Design):
    """Projections to q and k of a class of their own, and ordinary attention."""

    def __init__(self):
        super().__init__()
        self.query = self.projection(self.width, self.width)
        self.key = self.projection(self.width, self.width)

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        return scores.softmax(-1) @ v

    def agreement(self):
        """The projection too is compared: its outputs have the size that it promises."""
        x = torch.randn(self.batch, self.length, self.width)
        with torch.no_grad():
            return self.query(x).double(), self.query.by_hand(x).double()

    precision = torch.float32


class UnitScaledLinear(nn.Module):
    """Weights of size 1; the output is divided by √inputs, in the layer's own forward."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs))

    def forward(self, x):
        return F.linear(x, self.weight) * self.weight.shape[1] ** -0.5

    def by_hand(self, x):
        return torch.einsum("...i,oi->...o", x, self.weight) / math.sqrt(x.shape[-1])


@silent(Silent.SCALAR_OF_THE_PROJECTION, scale=SCALE)
class UnitScaled(Projected):
    projection = UnitScaledLinear


@silent(Silent.SCALAR_OF_THE_PROJECTION, scale=SCALE)
class UnitScaledKernel(Projected):
    """The same before a fused kernel."""

    projection = UnitScaledLinear

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)


class EqualisedLinear(UnitScaledLinear):
    """The same factor on the weights, before the product."""

    def forward(self, x):
        return F.linear(x, self.weight * self.weight.shape[1] ** -0.5)


@silent(Silent.SCALAR_OF_THE_PROJECTION, scale=SCALE)
class Equalised(Projected):
    projection = EqualisedLinear


class AdaptedLinear(nn.Module):
    """A frozen projection and a low-rank addition, with a factor of its own."""

    def __init__(self, inputs, outputs, rank=2, alpha=16):
        super().__init__()
        self.base = nn.Linear(inputs, outputs, bias=False)
        nn.init.normal_(self.base.weight, std=inputs**-0.5)
        self.down = nn.Linear(inputs, rank, bias=False)
        self.up = nn.Linear(rank, outputs, bias=False)
        nn.init.normal_(self.up.weight, std=0.01)
        self.scaling = alpha / rank

    def forward(self, x):
        return self.base(x) + self.up(self.down(x)) * self.scaling

    def by_hand(self, x):
        weight = self.base.weight + self.scaling * self.up.weight @ self.down.weight
        return x @ weight.T


@silent(Silent.SCALAR_OF_THE_PROJECTION, scale=SCALE)
class Adapted(Projected):
    projection = AdaptedLinear


class QuantisedLinear(nn.Module):
    """Eight-bit weights and one number per output, which are multiplied when needed."""

    def __init__(self, inputs, outputs):
        super().__init__()
        weight = torch.randn(outputs, inputs) * inputs**-0.5
        steps = weight.abs().amax(dim=1, keepdim=True) / 127
        self.register_buffer("integers", (weight / steps).round().to(torch.int8))
        self.register_buffer("steps", steps)

    def forward(self, x):
        return F.linear(x, self.integers.to(x.dtype) * self.steps)

    def by_hand(self, x):
        return x @ self.integers.float().T * self.steps[:, 0]


@silent(Silent.SCALAR_OF_THE_PROJECTION, scale=SCALE)
class Quantised(Projected):
    projection = QuantisedLinear


@silent(Silent.SCALAR_OF_THE_PROJECTION, scale=SCALE)
class FactorOfTheAttention(Design):
    """The opposite: right after the projection, but in the attention's own forward."""

    def forward(self, x):
        h = self.norm(x)
        q = self.split(self.query(h) * self.head_dim**-0.5)
        k, v = self.split(self.key(h)), self.split(self.value(h))
        return x + self.output(self.attend(q, k, v).transpose(1, 2).flatten(2))

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, scale=1.0)

    def expected(self, q, k, v):
        return attention(q @ k.mT, v)


@silent(Silent.SCALAR_OF_THE_PROJECTION, scale=SCALE)
class FactorBesideParameters(Design):
    """The attention owns its weights and multiplies what they give."""

    def __init__(self):
        super().__init__()
        self.packed = nn.Parameter(torch.randn(3, self.width, self.width) * self.width**-0.5)

    def forward(self, x):
        h = self.norm(x)
        q, k, v = (F.linear(h, weight) for weight in self.packed)
        q = q * self.head_dim**-0.5
        q, k, v = self.split(q), self.split(k), self.split(v)
        return x + self.output(self.attend(q, k, v).transpose(1, 2).flatten(2))

    def attend(self, q, k, v):
        return torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ v

    def expected(self, q, k, v):
        return attention(q @ k.mT, v)
