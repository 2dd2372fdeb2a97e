"""1/√width, the model's, where the head's belongs: too small by √heads."""

import math

import torch
import torch.nn.functional as F
from faults import models_sound as sound
from faults.transformer import Size

CODE = "RDK103"
TITLE = "model width"


def scale(size: Size) -> float:
    return size.width**-0.5


class Matmul(sound.Matmul):
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1)
        scores = scores / math.sqrt(self.width)  # fault
        weights = scores.softmax(dim=-1)
        return weights @ v


class QueryFactor(sound.QueryFactor):
    """``self.scale = dim ** -0.5``, where dim is the model's."""

    def __init__(self, width, heads):
        super().__init__(width, heads)
        self.scale = width**-0.5

    def attend(self, q, k, v):
        q = q * self.scale  # fault
        scores = torch.matmul(q, k.transpose(-1, -2))
        weights = F.softmax(scores, dim=-1)
        return torch.matmul(weights, v)


class Temperature(sound.Temperature):
    """A temperature from the model's width."""

    def __init__(self, width, heads):
        super().__init__(width, heads)
        self.temperature = width**0.5

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1)
        scores = scores / self.temperature  # fault
        return scores.softmax(dim=3) @ v


class TensorSqrt(sound.TensorSqrt):
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1)
        scores = scores / torch.sqrt(torch.tensor(self.width, dtype=torch.float32))  # fault
        return scores.softmax(-1) @ v


class Buffer(sound.Buffer):
    def __init__(self, width, heads):
        super().__init__(width, heads)
        self.scale.fill_(width**-0.5)

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1)
        scores = scores * self.scale  # fault
        return scores.softmax(dim=-1) @ v


class EinsumBshd(sound.EinsumBshd):
    def attend(self, q, k, v):
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k)
        scores = scores * (self.heads * self.head_dim) ** -0.5  # fault
        weights = F.softmax(scores, dim=-1)
        return torch.einsum("bhqk,bkhd->bqhd", weights, v)


class SdpaScale(sound.SdpaScale):
    def attend(self, q, k, v):
        scale = 1 / math.sqrt(self.width)
        return F.scaled_dot_product_attention(q, k, v, scale=scale)  # fault


class Baddbmm(sound.Baddbmm):
    def attend(self, q, k, v):
        empty = q.new_empty(q.shape[0], q.shape[1], k.shape[1])
        scale = self.width**-0.5
        scores = torch.baddbmm(empty, q, k.transpose(1, 2), beta=0, alpha=scale)  # fault
        weights = scores.softmax(dim=-1)
        return torch.bmm(weights, v)


class BothSides(sound.BothSides):
    """The fourth root of the wrong width: either line is guilty."""

    def __init__(self, width, heads):
        super().__init__(width, heads)
        self.scale = width**-0.25

    def attend(self, q, k, v):
        q = q * self.scale  # fault
        k = k * self.scale  # fault
        scores = q @ k.transpose(-2, -1)
        return scores.softmax(dim=-1) @ v
