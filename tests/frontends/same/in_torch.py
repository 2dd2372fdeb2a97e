"""The small transformer for torch, in four spellings of its attention."""

import numpy as np
import torch
import torch.nn.functional as F
from frontends.same.transformer import Case
from torch import Tensor, nn

__all__ = ["SPELLINGS", "build"]


def plain(q: Tensor, k: Tensor, v: Tensor, case: Case) -> Tensor:
    fault, size = case.fault, case.size
    scores = (q * fault.query(size)) @ k.transpose(-1, -2) * fault.scores(size)
    weights = softmax(scores, case) * fault.weights(size)
    return weights @ v


def einsum(q: Tensor, k: Tensor, v: Tensor, case: Case) -> Tensor:
    fault, size = case.fault, case.size
    scores = torch.einsum("bhqd,bhkd->bhqk", q * fault.query(size), k)
    scores = scores * fault.scores(size)
    weights = softmax(scores, case) * fault.weights(size)
    return torch.einsum("bhqk,bhkd->bhqd", weights, v)


def by_hand(q: Tensor, k: Tensor, v: Tensor, case: Case) -> Tensor:
    fault, size = case.fault, case.size
    scores = q * fault.query(size) @ k.mT / (1.0 / fault.scores(size))
    shift = 0.0 if fault.bare else scores.amax(fault.axis, keepdim=True)
    powers = torch.exp(scores - shift)
    weights = powers / powers.sum(fault.axis, keepdim=True)
    if fault.again:
        weights = weights.softmax(fault.axis)
    return weights * fault.weights(size) @ v


def fused(q: Tensor, k: Tensor, v: Tensor, case: Case) -> Tensor:
    fault, size = case.fault, case.size
    q = q * fault.query(size)
    out = F.scaled_dot_product_attention(q, k, v, scale=fault.scores(size))
    return out * fault.weights(size)


def softmax(scores: Tensor, case: Case) -> Tensor:
    fault = case.fault
    if fault.bare:
        powers = torch.exp(scores)
        return powers / powers.sum(fault.axis, keepdim=True)
    weights = torch.softmax(scores, fault.axis)
    return torch.softmax(weights, fault.axis) if fault.again else weights


SPELLINGS = {"plain": plain, "einsum": einsum, "by hand": by_hand, "fused": fused}


class Block(nn.Module):
    def __init__(self, case: Case, number: int, spelling: str) -> None:
        super().__init__()
        self.case, self.attend = case, SPELLINGS[spelling]
        width = case.size.width
        arrays = case.block(number)
        self.norm = nn.LayerNorm(width)
        for name in ("query", "key", "value", "output"):
            linear = nn.Linear(width, width, bias=False)
            linear.weight.data = torch.from_numpy(np.ascontiguousarray(arrays[name].T))
            setattr(self, name, linear)

    def forward(self, x: Tensor) -> Tensor:
        size, y = self.case.size, self.norm(x)
        q, k, v = (
            linear(y).view(*y.shape[:2], size.heads, size.head_dim).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        )
        out = self.attend(q, k, v, self.case).transpose(1, 2).flatten(2)
        return x + self.output(out)


class Transformer(nn.Module):
    def __init__(self, case: Case, spelling: str) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(case, number, spelling) for number in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def build(case: Case, spelling: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Transformer(case, spelling).eval(), (torch.from_numpy(case.x),)
