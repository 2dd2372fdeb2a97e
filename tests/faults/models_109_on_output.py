"""softmax(q·kᵀ/√head_dim)·v/√head_dim: the scale is right, and stands once more behind it."""

import math

import torch
import torch.nn.functional as F
from faults import models_sound as sound
from faults.transformer import Size

CODE = "RDK109"
TITLE = "scale again on the output"


def scale(size: Size) -> float:
    return size.standard


def weights(scores, size: Size):
    return scores.softmax(-1) * size.standard


class Matmul(sound.Matmul):
    def attend(self, q, k, v):
        return super().attend(q, k, v) / math.sqrt(q.shape[-1])  # fault


class Kernel(sound.Sdpa):
    """A factor that the kernel has applied already."""

    def attend(self, q, k, v):
        out = F.scaled_dot_product_attention(q, k, v)
        return out * q.size(-1) ** -0.5  # fault


class KernelValues(sound.Sdpa):
    def attend(self, q, k, v):
        v = v / math.sqrt(self.head_dim)  # fault
        return F.scaled_dot_product_attention(q, k, v)


class Values(sound.Matmul):
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        return scores.softmax(dim=-1) @ (v * self.head_dim**-0.5)  # fault


class EinsumBshd(sound.EinsumBshd):
    def attend(self, q, k, v):
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * self.head_dim**-0.5
        out = torch.einsum("bhqk,bkhd->bqhd", F.softmax(scores, dim=-1), v)
        return out * self.head_dim**-0.5  # fault


class Buffer(sound.Buffer):
    def attend(self, q, k, v):
        return super().attend(q, k, v) * self.scale  # fault


class ExpSumDiv(sound.ExpSumDiv):
    """Divided by the sum behind the product, and then by the root."""

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        exponentials = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
        out = exponentials @ v / exponentials.sum(dim=-1, keepdim=True)
        return out / math.sqrt(q.shape[-1])  # fault
