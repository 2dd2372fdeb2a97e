"""softmax(q·kᵀ)·v: the factor was forgotten. The guilty line is the product."""

import torch
import torch.nn.functional as F
from faults import models_sound as sound
from faults.transformer import Size

CODE = "RDK101"
TITLE = "missing scale"


def scale(size: Size) -> float:
    return 1.0


class Matmul(sound.Matmul):
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1)  # fault
        weights = scores.softmax(dim=-1)
        return weights @ v


class OneLine(sound.OneLine):
    def attend(self, q, k, v):
        return torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ v  # fault


class QueryFactor(sound.QueryFactor):
    """The factor is computed in the constructor, and never used."""

    def attend(self, q, k, v):
        scores = torch.matmul(q, k.transpose(-1, -2))  # fault
        weights = F.softmax(scores, dim=-1)
        return torch.matmul(weights, v)


class Causal(sound.Causal):
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1)  # fault
        scores = scores.masked_fill(self.hidden(scores), float("-inf"))
        weights = scores.softmax(dim=-1)
        return weights @ v


class Einsum(sound.Einsum):
    def attend(self, q, k, v):
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k)  # fault
        weights = torch.softmax(scores, dim=-1)
        return torch.einsum("bhqk,bhkd->bhqd", weights, v)


class EinsumBshd(sound.EinsumBshd):
    def attend(self, q, k, v):
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k)  # fault
        weights = F.softmax(scores, dim=-1)
        return torch.einsum("bhqk,bkhd->bqhd", weights, v)


class SdpaScale(sound.SdpaScale):
    """A scale of 1 for the kernel, in the belief that q was scaled before."""

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, scale=1.0)  # fault


class Baddbmm(sound.Baddbmm):
    """``alpha`` is 1 when it is not given."""

    def attend(self, q, k, v):
        empty = q.new_empty(q.shape[0], q.shape[1], k.shape[1])
        scores = torch.baddbmm(empty, q, k.transpose(1, 2), beta=0)  # fault
        weights = scores.softmax(dim=-1)
        return torch.bmm(weights, v)


class Bmm(sound.Bmm):
    """The division is there, but its result is thrown away."""

    def attend(self, q, k, v):
        scores = torch.bmm(q, k.transpose(1, 2))  # fault
        scores.div(self.head_dim**0.5)
        weights = F.softmax(scores, dim=2)
        return torch.bmm(weights, v)


class SumOfProducts(sound.SumOfProducts):
    def attend(self, q, k, v):
        products = q.unsqueeze(-2) * k.unsqueeze(-3)
        scores = products.sum(dim=-1)  # fault
        weights = scores.softmax(dim=-1)
        return weights @ v


class ExpSumDiv(sound.ExpSumDiv):
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1)  # fault
        exponentials = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
        weights = exponentials / exponentials.sum(dim=-1, keepdim=True)
        return weights @ v
