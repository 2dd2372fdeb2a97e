"""√head_dim as a multiplier: the division became a product, or was made twice."""

import math

import torch
import torch.nn.functional as F
from faults import models_sound as sound
from faults.transformer import Size

CODE = "RDK106"
TITLE = "inverted scale"


def scale(size: Size) -> float:
    return size.head_dim**0.5


class Matmul(sound.Matmul):
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1)
        scores = scores * math.sqrt(q.shape[-1])  # fault
        weights = scores.softmax(dim=-1)
        return weights @ v


class ScoreFactor(sound.ScoreFactor):
    """A factor to multiply by, divided by."""

    def attend(self, q, k, v):
        scores = torch.matmul(q, k.mT)
        scores = scores / self.scale  # fault
        weights = F.softmax(scores, dim=-1)
        return torch.matmul(weights, v)


class Temperature(sound.Temperature):
    """A temperature to divide by, that holds the reciprocal."""

    def __init__(self, width, heads):
        super().__init__(width, heads)
        self.temperature = self.head_dim**-0.5

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1)
        scores = scores / self.temperature  # fault
        return scores.softmax(dim=3) @ v


class Buffer(sound.Buffer):
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1)
        scores = scores / self.scale  # fault
        return scores.softmax(dim=-1) @ v


class Einsum(sound.Einsum):
    def attend(self, q, k, v):
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
        scores = scores * q.shape[-1] ** 0.5  # fault
        weights = torch.softmax(scores, dim=-1)
        return torch.einsum("bhqk,bhkd->bhqd", weights, v)


class SdpaScale(sound.SdpaScale):
    def attend(self, q, k, v):
        scale = math.sqrt(self.head_dim)
        return F.scaled_dot_product_attention(q, k, v, scale=scale)  # fault


class Baddbmm(sound.Baddbmm):
    def attend(self, q, k, v):
        empty = q.new_empty(q.shape[0], q.shape[1], k.shape[1])
        scale = math.sqrt(self.head_dim)
        scores = torch.baddbmm(empty, q, k.transpose(1, 2), beta=0, alpha=scale)  # fault
        weights = scores.softmax(dim=-1)
        return torch.bmm(weights, v)
