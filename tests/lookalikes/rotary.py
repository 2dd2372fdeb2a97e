"""Positions as rotations of q and k, in the spellings of their users."""

import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from lookalikes.design import SCALE, Design, attention, looks_wrong


def angles(length, head_dim):
    """Position times frequency, (tokens, head_dim / 2)."""
    frequencies = 1.0 / 10000 ** (torch.arange(0, head_dim, 2).float() / head_dim)
    return torch.outer(torch.arange(length).float(), frequencies)


class Rotary(Design):
    """q and k are rotated by their position, which keeps their length.

    ``rotated`` is the same by explicit sines and cosines in float64; ``pairs`` says which
    channels turn together.
    """

    precision = torch.float32
    amplitude = 1.0

    def pairs(self):
        half = self.head_dim // 2
        return [(i, i + half) for i in range(half)]

    def rotated(self, x):
        turned = torch.empty_like(x)
        angle = angles(x.shape[2], self.head_dim).double()
        for n, (a, b) in enumerate(self.pairs()):
            cos, sin = angle[:, n].cos(), angle[:, n].sin()
            turned[..., a] = x[..., a] * cos - x[..., b] * sin
            turned[..., b] = x[..., b] * cos + x[..., a] * sin
        return self.amplitude * turned

    def expected(self, q, k, v):
        return attention(SCALE * self.rotated(q) @ self.rotated(k).mT, v)


class RotatedInHalves(Rotary):
    def rotate(self, x):
        both = torch.cat([angles(x.shape[2], self.head_dim)] * 2, dim=-1).to(x.dtype)
        cos, sin = both.cos() * self.amplitude, both.sin() * self.amplitude
        a, b = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-b, a), dim=-1) * sin


@looks_wrong("q appears twice in a sum")
class RotaryHalves(RotatedInHalves):
    """The first half of the channels turns with the second."""

    def attend(self, q, k, v):
        q, k = self.rotate(q), self.rotate(k)
        scores = torch.matmul(q, k.transpose(2, 3)) * self.head_dim**-0.5
        return torch.matmul(F.softmax(scores, dim=-1), v)


@looks_wrong("slices of q are multiplied by different numbers")
class RotaryInterleaved(Rotary):
    """Neighbouring channels turn together."""

    def pairs(self):
        return [(i, i + 1) for i in range(0, self.head_dim, 2)]

    def rotate(self, x):
        angle = angles(x.shape[2], self.head_dim).to(x.dtype)
        cos, sin = angle.cos(), angle.sin()
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v)


@looks_wrong("q becomes complex")
class RotaryComplex(Rotary):
    """Neighbouring channels are one complex number, multiplied by a phase."""

    def pairs(self):
        return [(i, i + 1) for i in range(0, self.head_dim, 2)]

    def rotate(self, x):
        angle = angles(x.shape[2], self.head_dim)
        phases = torch.polar(torch.ones_like(angle), angle)
        numbers = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
        return torch.view_as_real(numbers * phases).flatten(-2).type_as(x)

    def attend(self, q, k, v):
        q, k = self.rotate(q), self.rotate(k)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        return scores.softmax(-1) @ v


@looks_wrong("only some of the channels are rotated")
class PartlyRotary(RotatedInHalves):
    """The first 8 channels turn, the other 8 pass."""

    rotary_width = 8

    def rotate(self, x):
        turning, passing = x[..., : self.rotary_width], x[..., self.rotary_width :]
        both = torch.cat([angles(x.shape[2], self.rotary_width)] * 2, dim=-1).to(x.dtype)
        a, b = turning.chunk(2, dim=-1)
        turning = turning * both.cos() + torch.cat((-b, a), dim=-1) * both.sin()
        return torch.cat([turning, passing], dim=-1)

    def pairs(self):
        return [(i, i + 4) for i in range(4)]

    def rotated(self, x):
        turned = x.clone()
        angle = angles(x.shape[2], self.rotary_width).double()
        for n, (a, b) in enumerate(self.pairs()):
            cos, sin = angle[:, n].cos(), angle[:, n].sin()
            turned[..., a] = x[..., a] * cos - x[..., b] * sin
            turned[..., b] = x[..., b] * cos + x[..., a] * sin
        return turned

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v)


@looks_wrong(
    "rotations as small matrices, multiplied and summed",
    hard="a product and a sum over an axis of two, which is no attention product",
)
class RotaryMatrices(Rotary):
    """Neighbouring channels times a 2 × 2 matrix each."""

    def pairs(self):
        return [(i, i + 1) for i in range(0, self.head_dim, 2)]

    def rotate(self, x):
        angle = angles(x.shape[2], self.head_dim).to(x.dtype)
        cos, sin = angle.cos(), angle.sin()
        matrices = torch.stack([cos, -sin, sin, cos], dim=-1).unflatten(-1, (2, 2))
        return (matrices * x.unflatten(-1, (-1, 1, 2))).sum(-1).flatten(-2)

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v)


@dataclass(frozen=True)
class LongContextConfig:
    rope_scaling: dict = field(
        default_factory=lambda: {"rope_type": "yarn", "factor": 8.0, "attention_factor": 1.2}
    )


@looks_wrong(
    "scores 1.44 times too large",
    scales=(1.44 * SCALE, SCALE),
    may_note=frozenset({"RDK108", "RDK111"}),
)
class Yarn(RotatedInHalves):
    """The configuration's attention factor multiplies cosines and sines, of q and of k."""

    amplitude = 1.2

    def __init__(self):
        super().__init__()
        self.config = LongContextConfig()

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v)
