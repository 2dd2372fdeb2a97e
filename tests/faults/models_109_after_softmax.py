"""softmax(q·kᵀ)/√head_dim·v: the factor stands behind the softmax, where it shrinks the output."""

import math

import torch
import torch.nn.functional as F
from faults import models_sound as sound
from faults.transformer import Size

CODE = "RDK109"
TITLE = "scale after softmax"


def scale(size: Size) -> float:
    return 1.0


def weights(scores, size: Size):
    return scores.softmax(-1) * size.standard


class Matmul(sound.Matmul):
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1)
        weights = scores.softmax(dim=-1)
        weights = weights / math.sqrt(q.shape[-1])  # fault
        return weights @ v


class OneLine(sound.OneLine):
    """A bracket at the wrong place."""

    def attend(self, q, k, v):
        return torch.softmax(q @ k.transpose(-2, -1), dim=-1) / q.size(-1) ** 0.5 @ v  # fault


class Buffer(sound.Buffer):
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1)
        weights = scores.softmax(dim=-1)
        weights = weights * self.scale  # fault
        return weights @ v


class Causal(sound.Causal):
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1)
        scores = scores.masked_fill(self.hidden(scores), float("-inf"))
        weights = scores.softmax(dim=-1)
        weights = weights * self.head_dim**-0.5  # fault
        return weights @ v


class EinsumBshd(sound.EinsumBshd):
    def attend(self, q, k, v):
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k)
        weights = F.softmax(scores, dim=-1)
        weights = weights * self.head_dim**-0.5  # fault
        return torch.einsum("bhqk,bkhd->bqhd", weights, v)


class Bmm(sound.Bmm):
    def attend(self, q, k, v):
        scores = torch.bmm(q, k.transpose(1, 2))
        weights = F.softmax(scores, dim=2)
        weights.div_(math.sqrt(self.head_dim))  # fault
        return torch.bmm(weights, v)


class ExpSumDiv(sound.ExpSumDiv):
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1)
        exponentials = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
        weights = exponentials / exponentials.sum(dim=-1, keepdim=True)
        weights = weights * self.head_dim**-0.5  # fault
        return weights @ v
