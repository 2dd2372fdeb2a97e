"""1/√heads: the number of heads was taken for their width."""

import math

import torch
import torch.nn.functional as F
from faults import models_sound as sound
from faults.transformer import Size

CODE = "RDK107"
TITLE = "head count"


def scale(size: Size) -> float:
    return size.heads**-0.5


class Matmul(sound.Matmul):
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1)
        scores = scores / math.sqrt(q.shape[1])  # fault
        weights = scores.softmax(dim=-1)
        return weights @ v


class QueryFactor(sound.QueryFactor):
    def __init__(self, width, heads):
        super().__init__(width, heads)
        self.scale = heads**-0.5

    def attend(self, q, k, v):
        q = q * self.scale  # fault
        scores = torch.matmul(q, k.transpose(-1, -2))
        weights = F.softmax(scores, dim=-1)
        return torch.matmul(weights, v)


class Buffer(sound.Buffer):
    def __init__(self, width, heads):
        super().__init__(width, heads)
        self.scale.fill_(heads**-0.5)

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1)
        scores = scores * self.scale  # fault
        return scores.softmax(dim=-1) @ v


class Einsum(sound.Einsum):
    """The layout changed from (batch, tokens, heads, …), and the index did not."""

    def attend(self, q, k, v):
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
        scores = scores * q.shape[-3] ** -0.5  # fault
        weights = torch.softmax(scores, dim=-1)
        return torch.einsum("bhqk,bhkd->bhqd", weights, v)


class SdpaScale(sound.SdpaScale):
    def attend(self, q, k, v):
        scale = 1 / math.sqrt(self.heads)
        return F.scaled_dot_product_attention(q, k, v, scale=scale)  # fault


class Bmm(sound.Bmm):
    def attend(self, q, k, v):
        scores = torch.bmm(q, k.transpose(1, 2))
        scores.div_(math.sqrt(self.heads))  # fault
        weights = F.softmax(scores, dim=2)
        return torch.bmm(weights, v)
