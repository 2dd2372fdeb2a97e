"""1/√tokens: the size of the wrong axis was read."""

import math

import torch
import torch.nn.functional as F
from faults import models_sound as sound
from faults.transformer import Size

CODE = "RDK105"
TITLE = "sequence length"


def scale(size: Size) -> float:
    return size.length**-0.5


class Matmul(sound.Matmul):
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1)
        scores = scores / math.sqrt(k.shape[-2])  # fault
        weights = scores.softmax(dim=-1)
        return weights @ v


class TensorSqrt(sound.TensorSqrt):
    """The width of the scores, where that of q was meant."""

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1)
        scores = scores / torch.sqrt(torch.tensor(scores.shape[-1], dtype=torch.float32))  # fault
        return scores.softmax(-1) @ v


class QueryFactor(sound.QueryFactor):
    def attend(self, q, k, v):
        q = q * q.size(2) ** -0.5  # fault
        scores = torch.matmul(q, k.transpose(-1, -2))
        weights = F.softmax(scores, dim=-1)
        return torch.matmul(weights, v)


class EinsumBshd(sound.EinsumBshd):
    """The axis that is right for another layout."""

    def attend(self, q, k, v):
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k)
        scores = scores / k.shape[1] ** 0.5  # fault
        weights = F.softmax(scores, dim=-1)
        return torch.einsum("bhqk,bkhd->bqhd", weights, v)


class SdpaScale(sound.SdpaScale):
    def attend(self, q, k, v):
        scale = 1 / math.sqrt(q.shape[-2])
        return F.scaled_dot_product_attention(q, k, v, scale=scale)  # fault


class Bmm(sound.Bmm):
    """k was transposed before its size was read."""

    def attend(self, q, k, v):
        k = k.transpose(1, 2)
        scores = torch.bmm(q, k)
        scores.div_(math.sqrt(k.shape[-1]))  # fault
        weights = F.softmax(scores, dim=2)
        return torch.bmm(weights, v)
