"""1/head_dim: the root was forgotten."""

import torch
import torch.nn.functional as F
from faults import models_sound as sound
from faults.transformer import Size

CODE = "RDK104"
TITLE = "unrooted, 1/d"


def scale(size: Size) -> float:
    return 1 / size.head_dim


class Matmul(sound.Matmul):
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1)
        scores = scores / q.shape[-1]  # fault
        weights = scores.softmax(dim=-1)
        return weights @ v


class QueryFactor(sound.QueryFactor):
    """``head_dim ** -1``."""

    def __init__(self, width, heads):
        super().__init__(width, heads)
        self.scale = self.head_dim**-1

    def attend(self, q, k, v):
        q = q * self.scale  # fault
        scores = torch.matmul(q, k.transpose(-1, -2))
        weights = F.softmax(scores, dim=-1)
        return torch.matmul(weights, v)


class Temperature(sound.Temperature):
    def __init__(self, width, heads):
        super().__init__(width, heads)
        self.temperature = float(self.head_dim)

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1)
        scores = scores / self.temperature  # fault
        return scores.softmax(dim=3) @ v


class TensorSqrt(sound.TensorSqrt):
    """A tensor all right, but no root of it."""

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1)
        scores = scores / torch.tensor(q.shape[-1], dtype=torch.float32)  # fault
        return scores.softmax(-1) @ v


class Einsum(sound.Einsum):
    def attend(self, q, k, v):
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
        scores = scores * (1 / q.shape[-1])  # fault
        weights = torch.softmax(scores, dim=-1)
        return torch.einsum("bhqk,bhkd->bhqd", weights, v)


class SumOfProducts(sound.SumOfProducts):
    """``mean`` where ``sum`` was meant: the 1/d hides in the reduction."""

    def attend(self, q, k, v):
        products = q.unsqueeze(-2) * k.unsqueeze(-3)
        scores = products.mean(dim=-1)  # fault
        weights = scores.softmax(dim=-1)
        return weights @ v


class SdpaScale(sound.SdpaScale):
    def attend(self, q, k, v):
        scale = 1 / self.head_dim
        return F.scaled_dot_product_attention(q, k, v, scale=scale)  # fault


class Baddbmm(sound.Baddbmm):
    def attend(self, q, k, v):
        empty = q.new_empty(q.shape[0], q.shape[1], k.shape[1])
        scale = 1.0 / self.head_dim
        scores = torch.baddbmm(empty, q, k.transpose(1, 2), beta=0, alpha=scale)  # fault
        weights = scores.softmax(dim=-1)
        return torch.bmm(weights, v)
