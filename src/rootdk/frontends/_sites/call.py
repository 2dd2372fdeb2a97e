"""One fused attention call, and what it should give."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

from rootdk.records import Addend

__all__ = ["Call"]


@dataclass
class Call:
    """One fused attention call with everything on (batch, heads, positions, width)."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    scale: float
    bias: torch.Tensor | None = None
    visible: torch.Tensor | None = None
    causal: bool = False
    softcap: float | None = None
    bias_factor: float = 1.0
    learned_bias: bool = False
    fills: list[Addend] = field(default_factory=list)

    def scores(self, batch: int, head: int, rows: torch.Tensor) -> torch.Tensor:
        """The final scores of some rows of one head, (rows, keys), in float64."""
        query = self.query[batch, head, rows].double()
        key = self.key[batch, self._kv(head, self.key)].double()
        scores = query @ key.T * self.scale
        if self.softcap is not None:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        if self.bias is not None:
            scores = scores + _rows(self.bias, batch, head, rows).double()
        if self.visible is not None:
            scores = scores.masked_fill(~_rows(self.visible, batch, head, rows), -math.inf)
        if self.causal:
            keys = torch.arange(scores.shape[-1], device=scores.device)
            scores = scores.masked_fill(keys[None, :] > rows[:, None], -math.inf)
        return scores

    def output(self, batch: int, head: int, rows: torch.Tensor) -> torch.Tensor:
        """Some rows of one head's output, (rows, value_dim), in float64; empty rows are 0."""
        weights = torch.softmax(self.scores(batch, head, rows), -1).nan_to_num(0.0)
        return weights @ self.value[batch, self._kv(head, self.value)].double()

    def reach(self, batch: int, head: int, rows: torch.Tensor) -> float:
        """The largest |query|·|key|·scale among some rows: what rounding errors grow with."""
        query = self.query[batch, head, rows].double().norm(dim=-1)
        key = self.key[batch, self._kv(head, self.key)].double().norm(dim=-1)
        return float((query.max() * key.max()).nan_to_num(0.0)) * abs(self.scale)

    def _kv(self, head: int, shared: torch.Tensor) -> int:
        return head // max(self.query.shape[1] // max(shared.shape[1], 1), 1)


def _rows(tensor: torch.Tensor, batch: int, head: int, rows: torch.Tensor) -> torch.Tensor:
    """The rows of a mask or bias that broadcasts to the scores."""
    tensor = tensor.reshape((1,) * (4 - tensor.dim()) + tuple(tensor.shape))
    one = tensor[batch if tensor.shape[0] != 1 else 0, head if tensor.shape[1] != 1 else 0]
    return one[rows] if one.shape[0] != 1 else one
