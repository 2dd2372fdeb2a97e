"""The factor 1/√head_dim at two places. The guilty line is the later of the two."""

import math

import torch
import torch.nn.functional as F
from faults import models_sound as sound
from faults.transformer import Size

CODE = "RDK102"
TITLE = "scale applied twice"


def scale(size: Size) -> float:
    return 1 / size.head_dim


class Matmul(sound.Matmul):
    """On k, and on the scores."""

    def attend(self, q, k, v):
        k = k / math.sqrt(self.head_dim)
        scores = q @ k.transpose(-2, -1)
        scores = scores / math.sqrt(q.shape[-1])  # fault
        weights = scores.softmax(dim=-1)
        return weights @ v


class QueryFactor(sound.QueryFactor):
    """On q, and on the scores."""

    def attend(self, q, k, v):
        q = q * self.scale
        scores = torch.matmul(q, k.transpose(-1, -2))
        scores = scores * self.scale  # fault
        weights = F.softmax(scores, dim=-1)
        return torch.matmul(weights, v)


class Causal(sound.Causal):
    """Before the mask, and after it."""

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        scores = scores.masked_fill(self.hidden(scores), float("-inf"))
        scores = scores / math.sqrt(self.head_dim)  # fault
        weights = scores.softmax(dim=-1)
        return weights @ v


class Buffer(sound.Buffer):
    """A buffer on q, and the same buffer on the scores."""

    def attend(self, q, k, v):
        scores = (q * self.scale) @ k.transpose(-2, -1)
        scores = scores * self.scale  # fault
        return scores.softmax(dim=-1) @ v


class Einsum(sound.Einsum):
    """The product is scaled where it is made, and again two lines on."""

    def attend(self, q, k, v):
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * self.head_dim**-0.5
        scores = scores / q.shape[-1] ** 0.5  # fault
        weights = torch.softmax(scores, dim=-1)
        return torch.einsum("bhqk,bhkd->bhqd", weights, v)


class SdpaQuery(sound.SdpaQuery):
    """q carries the factor, and the library's default adds its own."""

    def attend(self, q, k, v):
        q = q * self.scale
        return F.scaled_dot_product_attention(q, k, v)  # fault


class Baddbmm(sound.Baddbmm):
    """On q, and as ``alpha``."""

    def attend(self, q, k, v):
        scale = self.head_dim**-0.5
        q = q * scale
        empty = q.new_empty(q.shape[0], q.shape[1], k.shape[1])
        scores = torch.baddbmm(empty, q, k.transpose(1, 2), beta=0, alpha=scale)  # fault
        weights = scores.softmax(dim=-1)
        return torch.bmm(weights, v)


class BothSides(sound.BothSides):
    """The whole root on either side, where the fourth root belongs."""

    def attend(self, q, k, v):
        q = q * self.head_dim**-0.5
        k = k * self.head_dim**-0.5  # fault
        scores = q @ k.transpose(-2, -1)
        return scores.softmax(dim=-1) @ v


class BothSidesAndSdpa(sound.BothSides):
    """The fourth root on either side is one factor, the library's default the second."""

    def attend(self, q, k, v):
        q = q * self.scale
        k = k * self.scale
        return F.scaled_dot_product_attention(q, k, v)  # fault
