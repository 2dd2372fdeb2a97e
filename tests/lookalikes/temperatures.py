"""Norms and learned temperatures, where 1/√d looks missing or superfluous."""

import math

import torch
import torch.nn.functional as F
from lookalikes.design import SCALE, Design, attention, looks_wrong
from torch import nn

LEARNED_IS_EXCUSED = frozenset({"RDK101", "RDK104", "RDK106", "RDK108"})


@looks_wrong(
    "a parameter where 1/√d belongs",
    scales=(1.0, SCALE),
    learned=True,
    may_note=LEARNED_IS_EXCUSED,
)
class LearnedTemperature(Design):
    """Each head learns its own temperature."""

    def __init__(self):
        super().__init__()
        self.temperature = nn.Parameter(torch.full((self.heads, 1, 1), SCALE))

    def attend(self, q, k, v):
        scores = (q @ k.transpose(-2, -1)) * self.temperature
        return scores.softmax(dim=-1) @ v


@looks_wrong(
    "channels attend to channels, without 1/√d",
    scales=(1.0,),
    learned=True,
    may_note=LEARNED_IS_EXCUSED | {"RDK502"},
    hard="the product runs over the tokens",
)
class CrossCovariance(Design):
    """q and k have unit length along the tokens; the temperature is learned."""

    def __init__(self):
        super().__init__()
        self.temperature = nn.Parameter(torch.ones(self.heads, 1, 1))

    def attend(self, q, k, v):
        q, k, v = (x.transpose(-2, -1) for x in (q, k, v))
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        scores = (q @ k.transpose(-2, -1)) * self.temperature
        return (scores.softmax(dim=-1) @ v).transpose(-2, -1)

    def expected(self, q, k, v):
        q, k = q / q.norm(dim=2, keepdim=True), k / k.norm(dim=2, keepdim=True)
        return v @ (k.mT @ q).softmax(-2)


@looks_wrong(
    "a factor of 10 and no 1/√d",
    scales=(1.0, 10.0),
    learned=True,
    may_note=LEARNED_IS_EXCUSED,
)
class CosineAttention(Design):
    """Cosines times a learned, clamped temperature, plus a position bias."""

    def __init__(self):
        super().__init__()
        self.logit_scale = nn.Parameter(torch.full((self.heads, 1, 1), math.log(10.0)))
        self.bias = nn.Parameter(0.02 * torch.randn(self.heads, self.length, self.length))

    def attend(self, q, k, v):
        cosines = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        limit = math.log(1.0 / 0.01)
        scores = cosines * torch.clamp(self.logit_scale, max=limit).exp() + self.bias
        return F.softmax(scores, dim=-1) @ v

    def expected(self, q, k, v):
        q, k = (x / (x * x).sum(-1, keepdim=True).sqrt() for x in (q, k))
        temperature = self.logit_scale.exp()
        return attention(temperature * (q @ k.mT) + self.bias, v)


class RootMeanSquare(nn.Module):
    """x over its root mean square, times a learned gain."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class QkNorm(Design):
    """Norms with a learned gain on q and k of each head."""

    def __init__(self):
        super().__init__()
        self.q_norm = RootMeanSquare(self.head_dim)
        self.k_norm = RootMeanSquare(self.head_dim)

    def normed(self, q, k):
        return (x / (x * x).mean(-1, keepdim=True).add(1e-6).sqrt() for x in (q, k))


@looks_wrong("a scale of 1", scales=(1.0,), notes=frozenset({"RDK101"}))
class QkNormUnscaled(QkNorm):
    """The gains of the norms learn the factor."""

    def attend(self, q, k, v):
        q, k = self.q_norm(q), self.k_norm(k)
        return F.scaled_dot_product_attention(q, k, v, scale=1.0)

    def expected(self, q, k, v):
        q, k = self.normed(q, k)
        return attention(q @ k.mT, v)


@looks_wrong("norms on q and k, and 1/√d beside them")
class QkNormScaled(QkNorm):
    """The one does not replace the other."""

    def attend(self, q, k, v):
        q, k = self.q_norm(q), self.k_norm(k)
        scores = torch.matmul(q, k.transpose(2, 3)) * self.head_dim**-0.5
        return torch.matmul(F.softmax(scores, dim=-1), v)

    def expected(self, q, k, v):
        q, k = self.normed(q, k)
        return attention(SCALE * q @ k.mT, v)


@looks_wrong("norms over the whole width, in front of the heads")
class WholeWidthNorm(Design):
    """q and k are normalised before they are split."""

    def __init__(self):
        super().__init__()
        self.q_norm = nn.RMSNorm(self.width, eps=1e-6)
        self.k_norm = nn.RMSNorm(self.width, eps=1e-6)

    def attend(self, q, k, v):
        q, k = (
            self.split(norm(x.transpose(1, 2).flatten(2)))
            for norm, x in ((self.q_norm, q), (self.k_norm, k))
        )
        return F.scaled_dot_product_attention(q, k, v)

    def expected(self, q, k, v):
        q, k = (x / (x * x).mean((1, 3), keepdim=True).add(1e-6).sqrt() for x in (q, k))
        return attention(SCALE * q @ k.mT, v)


@looks_wrong("a factor of 10", scales=(10.0,), may_note=LEARNED_IS_EXCUSED)
class UnitLengthTimesTen(Design):
    """q and k of length 1 make scores of at most 1: ten is a temperature of a tenth."""

    def attend(self, q, k, v):
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        scores = torch.einsum("bhid,bhjd->bhij", q, k) * 10
        return torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), v)

    def expected(self, q, k, v):
        q, k = (x / (x * x).sum(-1, keepdim=True).sqrt() for x in (q, k))
        return attention(10 * q @ k.mT, v)


@looks_wrong(
    "q times a number that grows with the position",
    learned=True,
    may_note=frozenset({"RDK111"}),
)
class PositionTemperature(Design):
    """Far positions get sharper attention, by the logarithm of the position."""

    precision = torch.float32

    def attend(self, q, k, v):
        positions = torch.arange(q.shape[2], dtype=q.dtype)
        temperature = torch.log1p(torch.floor((positions + 1) / 4)) * 0.1 + 1
        q = q * temperature[None, None, :, None]
        return F.scaled_dot_product_attention(q, k, v)

    def expected(self, q, k, v):
        rows = [1 + 0.1 * math.log1p((i + 1) // 4) for i in range(self.length)]
        return attention(SCALE * torch.tensor(rows)[:, None].double() * (q @ k.mT), v)
