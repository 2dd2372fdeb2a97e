"""The softmax runs over the queries, so that each key's weights sum to 1, and no query's do."""

import math

import torch
import torch.nn.functional as F
from faults import models_sound as sound
from faults.transformer import Size
from torch import nn

CODE = "RDK301"
TITLE = "softmax over the queries"


def scale(size: Size) -> float:
    return size.standard


def weights(scores, size: Size):
    return scores.softmax(-2)


class Matmul(sound.Matmul):
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = scores.softmax(dim=-2)  # fault
        return weights @ v


class SoftmaxModule(sound.SoftmaxModule):
    """Written for scores without a head axis."""

    def __init__(self, width, heads):
        super().__init__(width, heads)
        self.softmax = nn.Softmax(dim=2)

    def attend(self, q, k, v):
        scores = torch.matmul(q * self.scale, k.transpose(-1, -2))
        weights = self.softmax(scores)  # fault
        return torch.matmul(weights, v)


class Causal(sound.Causal):
    """Later queries compete for early keys."""

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        scores = scores.masked_fill(self.hidden(scores), float("-inf"))
        weights = scores.softmax(dim=-2)  # fault
        return weights @ v


class Einsum(sound.Einsum):
    def attend(self, q, k, v):
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5
        weights = torch.softmax(scores, dim=2)  # fault
        return torch.einsum("bhqk,bhkd->bhqd", weights, v)


class EinsumKeysFirst(sound.EinsumBshd):
    """Keys before queries, and a softmax over the last axis out of habit."""

    def attend(self, q, k, v):
        q = q * self.head_dim**-0.5
        scores = torch.einsum("bqhd,bkhd->bhkq", q, k)
        weights = F.softmax(scores, dim=-1)  # fault
        return torch.einsum("bhkq,bkhd->bqhd", weights, v)


class Bmm(sound.Bmm):
    def attend(self, q, k, v):
        scores = torch.bmm(q, k.transpose(1, 2))
        scores.div_(math.sqrt(self.head_dim))
        weights = F.softmax(scores, dim=1)  # fault
        return torch.bmm(weights, v)


class ExpSumDiv(sound.ExpSumDiv):
    """By hand, over the wrong axis throughout: any of the three lines may be named."""

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        exponentials = torch.exp(scores - scores.amax(dim=-2, keepdim=True))  # fault
        total = exponentials.sum(dim=-2, keepdim=True)  # fault
        weights = exponentials / total  # fault
        return weights @ v
