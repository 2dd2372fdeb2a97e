"""The softmax runs over the heads, which compete where they should not know of each other."""

import math

import torch
import torch.nn.functional as F
from faults import models_sound as sound
from faults.transformer import Size
from torch import nn

CODE = "RDK301"
TITLE = "softmax over the heads"


def scale(size: Size) -> float:
    return size.standard


def weights(scores, size: Size):
    return scores.softmax(-3)


class Matmul(sound.Matmul):
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = scores.softmax(dim=1)  # fault
        return weights @ v


class QueryFactor(sound.QueryFactor):
    def attend(self, q, k, v):
        q = q * self.scale
        scores = torch.matmul(q, k.transpose(-1, -2))
        weights = F.softmax(scores, dim=-3)  # fault
        return torch.matmul(weights, v)


class SoftmaxModule(sound.SoftmaxModule):
    """Right for (batch, keys) scores, as the module's own example has it."""

    def __init__(self, width, heads):
        super().__init__(width, heads)
        self.softmax = nn.Softmax(dim=1)

    def attend(self, q, k, v):
        scores = torch.matmul(q * self.scale, k.transpose(-1, -2))
        weights = self.softmax(scores)  # fault
        return torch.matmul(weights, v)


class Einsum(sound.Einsum):
    def attend(self, q, k, v):
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5
        weights = torch.softmax(scores, dim=1)  # fault
        return torch.einsum("bhqk,bhkd->bhqd", weights, v)


class EinsumHeadsLast(sound.EinsumBshd):
    """The heads are the last axis of the scores, and the softmax takes the last axis."""

    def attend(self, q, k, v):
        q = q * self.head_dim**-0.5
        scores = torch.einsum("bqhd,bkhd->bqkh", q, k)
        weights = F.softmax(scores, dim=-1)  # fault
        return torch.einsum("bqkh,bkhd->bqhd", weights, v)
