"""0.6/√head_dim: a constant that no law explains, in one number or beside a right one."""

import math

import torch
import torch.nn.functional as F
from faults import models_sound as sound
from faults.transformer import Size

CODE = "RDK108"
TITLE = "another constant"


def scale(size: Size) -> float:
    return 0.6 * size.standard


class Matmul(sound.Matmul):
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1)
        scores = scores * (0.6 / math.sqrt(self.head_dim))  # fault
        weights = scores.softmax(dim=-1)
        return weights @ v


class ScoreFactor(sound.ScoreFactor):
    """The right factor, and one more."""

    def attend(self, q, k, v):
        scores = torch.matmul(q, k.mT) * self.scale
        scores = scores * 0.6  # fault
        weights = F.softmax(scores, dim=-1)
        return torch.matmul(weights, v)


class Buffer(sound.Buffer):
    """A buffer that came with a checkpoint."""

    def __init__(self, width, heads):
        super().__init__(width, heads)
        self.scale.mul_(0.6)

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1)
        scores = scores * self.scale  # fault
        return scores.softmax(dim=-1) @ v


class Einsum(sound.Einsum):
    def attend(self, q, k, v):
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
        scores = scores / (q.shape[-1] / 0.36) ** 0.5  # fault
        weights = torch.softmax(scores, dim=-1)
        return torch.einsum("bhqk,bhkd->bhqd", weights, v)


class Sdpa(sound.Sdpa):
    """The library's default is right; the line before it is not."""

    def attend(self, q, k, v):
        k = k * 0.6  # fault
        return F.scaled_dot_product_attention(q, k, v)


class SdpaScale(sound.SdpaScale):
    def attend(self, q, k, v):
        scale = 0.6 * self.head_dim**-0.5
        return F.scaled_dot_product_attention(q, k, v, scale=scale)  # fault


class Baddbmm(sound.Baddbmm):
    def attend(self, q, k, v):
        empty = q.new_empty(q.shape[0], q.shape[1], k.shape[1])
        scale = 0.6 * self.head_dim**-0.5
        scores = torch.baddbmm(empty, q, k.transpose(1, 2), beta=0, alpha=scale)  # fault
        weights = scores.softmax(dim=-1)
        return torch.bmm(weights, v)
