"""A scale per channel or per head, learned or constant."""

import math

import torch
import torch.nn.functional as F
from lookalikes.design import SCALE, Design, attention
from nine.case import Silent, silent
from torch import nn


@silent(Silent.SCALE_PER_CHANNEL, scale=8.0, constants=1.0)
class LearnedChannels(Design):
    """q and k of unit length, each times a learned vector that starts at √8."""

    def __init__(self):
        super().__init__()
        self.q_scale = nn.Parameter(torch.full((self.head_dim,), 8**0.5))
        self.k_scale = nn.Parameter(torch.full((self.head_dim,), 8**0.5))

    def attend(self, q, k, v):
        q = F.normalize(q, dim=-1) * self.q_scale
        k = F.normalize(k, dim=-1) * self.k_scale
        return F.scaled_dot_product_attention(q, k, v, scale=1.0)

    def expected(self, q, k, v):
        q, k = (x / (x * x).sum(-1, keepdim=True).sqrt() for x in (q, k))
        return attention(self.q_scale[0] * self.k_scale[0] * (q @ k.mT), v)


class UnevenChannels(Design):
    """Channels from half to one and a half of the standard scale: no number describes them."""

    def channels(self, like):
        return torch.linspace(0.5, 1.5, self.head_dim, dtype=like.dtype) * SCALE

    def expected(self, q, k, v):
        return attention((q * self.channels(q)) @ k.mT, v)


@silent(Silent.SCALE_PER_CHANNEL, scale=None)
class LearnedUnevenChannels(UnevenChannels):
    precision = torch.float32

    def __init__(self):
        super().__init__()
        self.channel_scale = nn.Parameter(self.channels(torch.ones(())))

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q * self.channel_scale, k, v, scale=1.0)


@silent(Silent.SCALE_PER_CHANNEL, scale=None)
class ConstantUnevenChannels(UnevenChannels):
    """The vector is a buffer, and stands on k."""

    precision = torch.float32

    def __init__(self):
        super().__init__()
        self.register_buffer("channel_scale", self.channels(torch.ones(())))

    def attend(self, q, k, v):
        scores = q @ (k * self.channel_scale).transpose(-2, -1)
        return scores.softmax(-1) @ v


@silent(Silent.SCALE_PER_CHANNEL, scale=SCALE / 2)
class ConstantEvenChannels(Design):
    """A buffer of one number per channel, all 0.5, and a standard scale."""

    def __init__(self):
        super().__init__()
        self.register_buffer("channel_scale", torch.full((self.head_dim,), 0.5))

    def attend(self, q, k, v):
        scores = (q * self.channel_scale) @ k.transpose(-2, -1) * self.head_dim**-0.5
        return scores.softmax(-1) @ v

    def expected(self, q, k, v):
        return attention(SCALE / 2 * q @ k.mT, v)


@silent(
    Silent.SCALE_PER_CHANNEL,
    scale=SCALE * 1.442695041 * math.log1p(math.e),
    constants=SCALE * 1.442695041,
)
class SoftplusChannels(Design):
    """A learned vector behind a softplus, over ln 2 and √d."""

    precision = torch.float32

    def __init__(self):
        super().__init__()
        self.scaling = nn.Parameter(torch.ones(self.head_dim))

    def attend(self, q, k, v):
        scale = F.softplus(self.scaling).mul(1.442695041 / math.sqrt(self.head_dim))
        q = q * scale[None, None, None, :]
        scores = torch.matmul(q, k.transpose(2, 3))
        return torch.matmul(scores.softmax(-1), v)

    def expected(self, q, k, v):
        return attention(SCALE * 1.442695041 * math.log(1 + math.e) * q @ k.mT, v)


@silent(Silent.SCALE_PER_CHANNEL, scale=None)
class NumberPerHead(Design):
    """Each head has a constant of its own."""

    def __init__(self):
        super().__init__()
        per_head = SCALE * torch.tensor([0.5, 1.0, 1.5, 2.0])
        self.register_buffer("per_head", per_head[:, None, None])

    def attend(self, q, k, v):
        scores = (q @ k.transpose(-2, -1)) * self.per_head
        return scores.softmax(-1) @ v

    def expected(self, q, k, v):
        factors = torch.tensor([0.5, 1.0, 1.5, 2.0], dtype=q.dtype)
        outputs = [
            attention(SCALE * c * q[:, h] @ k[:, h].mT, v[:, h]) for h, c in enumerate(factors)
        ]
        return torch.stack(outputs, dim=1)
