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

    def scores(self, b: torch.Tensor, h: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        """The final scores of sampled rows, (samples, keys), in float64."""
        groups = max(self.query.shape[1] // max(self.key.shape[1], 1), 1)
        query = self.query[b, h, i].double()
        key = self.key[b, h // groups].double()
        scores = torch.einsum("sd,skd->sk", query, key) * self.scale
        if self.softcap is not None:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        keys = scores.shape[-1]
        if self.bias is not None:
            scores = scores + _rows(self.bias, b, h, i, keys).double()
        if self.visible is not None:
            shown = _rows(self.visible, b, h, i, keys)
            scores = scores.masked_fill(~shown, -math.inf)
        if self.causal:
            hidden = torch.arange(keys, device=scores.device)[None, :] > i[:, None]
            scores = scores.masked_fill(hidden, -math.inf)
        return scores

    def output(self, b: torch.Tensor, h: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        """Rows of the attention output, (samples, value_dim), in float64; empty rows are 0."""
        groups = max(self.query.shape[1] // max(self.value.shape[1], 1), 1)
        weights = torch.softmax(self.scores(b, h, i), -1).nan_to_num(0.0)
        return torch.einsum("sk,skd->sd", weights, self.value[b, h // groups].double())


def _rows(
    tensor: torch.Tensor, b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, keys: int
) -> torch.Tensor:
    tensor = tensor.reshape((1,) * (4 - tensor.dim()) + tuple(tensor.shape))
    index = [
        at if size != 1 else torch.zeros_like(at)
        for at, size in zip((b, h, i), tensor.shape[:3], strict=True)
    ]
    return tensor[tuple(index)].expand(len(b), keys)
