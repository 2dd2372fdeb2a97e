"""The two operators that hold a whole layer: what they project, hide and give."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from rootdk.frontends._graph.trail import UnresolvedError
from rootdk.frontends._sites.call import Call
from rootdk.frontends._sites.numbers import eps_of
from rootdk.frontends._sites.recompute import NOTHING_SEEN, Mismatch
from rootdk.records import Addend

__all__ = ["Layer"]


class Layer:
    """The arguments of the two whole-layer operators, and what they compute."""

    def __init__(self, args: Sequence[Any], kwargs: dict[str, Any], encoder: bool) -> None:
        self.encoder = encoder
        at = 1 if encoder else 3
        self.width, self.heads = int(args[at]), int(args[at + 1])
        self.qkv_weight, self.qkv_bias, self.out_weight, self.out_bias = args[at + 2 : at + 6]
        self.rest = args[at + 6 :]
        if encoder:
            self.gelu, self.norm_first, self.eps = self.rest[:3]
            self.norms = self.rest[3:7]
            self.feed = self.rest[7:11]
            self.mask = kwargs.get("mask", self.rest[11] if len(self.rest) > 11 else None)
            self.mask_type = kwargs.get("mask_type", self.rest[12] if len(self.rest) > 12 else None)
        else:
            self.mask = kwargs.get("mask", self.rest[0] if self.rest else None)
            self.mask_type = kwargs.get("mask_type", self.rest[3] if len(self.rest) > 3 else None)

    def entering(self, source: torch.Tensor) -> torch.Tensor:
        """What the projections read."""
        if self.encoder and self.norm_first:
            return torch.nn.functional.layer_norm(
                source, (self.width,), self.norms[0], self.norms[1], self.eps
            )
        return source

    def project(self, source: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """q, k and v per head."""
        entering = self.entering(source)
        packed = torch.nn.functional.linear(entering, self.qkv_weight, self.qkv_bias)
        batch, length, _ = packed.shape
        split = packed.reshape(batch, length, 3, self.heads, self.width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4).detach().unbind(0)
        return query, key, value

    def hide(self, call: Call) -> None:
        """The boolean mask of the fast path: True hides."""
        if self.mask is None:
            return
        mask = self.mask.detach()
        if mask.dtype != torch.bool:
            mask = mask != 0
        if mask.dim() == 2 and self.mask_type == 1:
            mask = mask[:, None, None, :]
        elif mask.dim() == 2:
            mask = mask[None, None]
        elif mask.dim() == 3:
            mask = mask[:, None]
        call.visible = ~mask
        call.fills.append(Addend(kind="mask", fill=-math.inf))

    def compare(
        self,
        call: Call,
        source: torch.Tensor,
        observed: torch.Tensor,
        generator: np.random.Generator,
        rows: int,
    ) -> Mismatch:
        """Recompute sampled positions of the layer's output from q, k and v."""
        batch, heads, length, _ = call.query.shape
        # The mask is the same for every head.
        seeing = [b * length + call.rows_seeing(b, 0) for b in range(batch)]
        drawn = generator.permutation(np.concatenate(seeing))
        if batch * length and not drawn.size:
            raise UnresolvedError(NOTHING_SEEN)
        count = min(max(rows // max(heads, 1), 4), len(drawn))
        chosen = drawn[:count]
        pairs = [(int(at // length), np.asarray([at % length])) for at in chosen]
        joined = np.stack(
            [np.concatenate([call.output(b, h, at)[0] for h in range(heads)]) for b, at in pairs]
        )
        alive = np.stack([np.isfinite(call.scores(b, 0, at)).any() for b, at in pairs])
        b = torch.as_tensor(chosen // length, device=source.device)
        i = torch.as_tensor(chosen % length, device=source.device)
        weight, bias = self.out_weight.double(), self.out_bias.double()
        given = torch.as_tensor(joined, device=weight.device)
        out = torch.nn.functional.linear(given, weight, bias)
        if self.encoder:
            out = self._after(source[b, i].double(), out)
        seen = observed[b, i].double()
        kept = torch.as_tensor(alive, device=out.device)
        gap = torch.where(kept[:, None], (out - seen).abs(), torch.zeros_like(out))
        size = max(float(out.abs().max()), 1.0)
        bound = eps_of(observed.dtype) * size * 64.0
        return Mismatch(count, float(gap.max()) if gap.numel() else 0.0, bound)

    def _after(self, source: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        functional = torch.nn.functional

        def norm(x: torch.Tensor, at: int) -> torch.Tensor:
            weight, bias = self.norms[at].double(), self.norms[at + 1].double()
            return functional.layer_norm(x, (self.width,), weight, bias, self.eps)

        def feed(x: torch.Tensor) -> torch.Tensor:
            inner = functional.linear(x, self.feed[0].double(), self.feed[1].double())
            inner = functional.gelu(inner) if self.gelu else functional.relu(inner)
            return functional.linear(inner, self.feed[2].double(), self.feed[3].double())

        if self.norm_first:
            hidden = source + attended
            return hidden + feed(norm(hidden, 2))
        hidden = norm(source + attended, 0)
        return norm(hidden + feed(hidden), 2)
