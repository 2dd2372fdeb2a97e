"""A softmax of softmaxed weights, which are all nearly equal. The guilty line is the second."""

import math

import torch
import torch.nn.functional as F
from faults import models_sound as sound
from faults.transformer import Size
from torch import nn

CODE = "RDK305"
TITLE = "softmax twice"


def scale(size: Size) -> float:
    return size.standard


def weights(scores, size: Size):
    return scores.softmax(-1).softmax(-1)


class Matmul(sound.Matmul):
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = scores.softmax(dim=-1)
        weights = weights.softmax(dim=-1)  # fault
        return weights @ v


class SoftmaxModule(sound.SoftmaxModule):
    """A function that returns weights, taken for one that returns scores."""

    def weigh(self, q, k):
        return self.softmax(torch.matmul(q * self.scale, k.transpose(-1, -2)))

    def attend(self, q, k, v):
        scores = self.weigh(q, k)
        weights = nn.functional.softmax(scores, dim=-1)  # fault
        return torch.matmul(weights, v)


class Causal(sound.Causal):
    """The second softmax gives weight to hidden tokens, whose first weight was 0."""

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        scores = scores.masked_fill(self.hidden(scores), float("-inf"))
        weights = scores.softmax(dim=-1)
        weights = weights.softmax(dim=-1)  # fault
        return weights @ v


class Einsum(sound.Einsum):
    def attend(self, q, k, v):
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5
        weights = torch.softmax(scores, dim=-1)
        weights = torch.softmax(weights, dim=-1)  # fault
        return torch.einsum("bhqk,bhkd->bhqd", weights, v)


class Bmm(sound.Bmm):
    def attend(self, q, k, v):
        scores = torch.bmm(q, k.transpose(1, 2))
        scores.div_(math.sqrt(self.head_dim))
        weights = F.softmax(scores, dim=2)
        weights = F.softmax(weights, dim=2)  # fault
        return torch.bmm(weights, v)


class Baddbmm(sound.Baddbmm):
    def attend(self, q, k, v):
        empty = q.new_empty(q.shape[0], q.shape[1], k.shape[1])
        scale = self.head_dim**-0.5
        scores = torch.baddbmm(empty, q, k.transpose(1, 2), beta=0, alpha=scale)
        weights = scores.softmax(dim=-1)
        weights = weights.softmax(dim=-1)  # fault
        return torch.bmm(weights, v)
