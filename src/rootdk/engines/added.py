"""What a fused kernel is to add to the scores: a bias of keys, and −∞ for what is hidden."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rootdk._lib.arrays import to_numpy
from rootdk.engines.call import Call
from rootdk.engines.kernels import kernels_of
from rootdk.stats.block import Integers


def is_masked(call: Call) -> bool:
    """Tell whether a kernel has to be told what to add to the scores."""
    return call.mask is not None or call.bias is not None or is_spelt_out(call)


def is_spelt_out(call: Call) -> bool:
    """Tell whether what order and windows hide is spelt out: it is not as kernels know it."""
    if not call.ordered:
        return False
    square = call.queries == call.keys == len(call.rows)
    alone = call.mask is None and call.bias is None and call.segments is None
    return not (square and alone and call.window == (None, None))


@dataclass(frozen=True, eq=False, kw_only=True)
class Added:
    """What a kernel is to add to the scores.

    Attributes
    ----------
    bias : tensor or None
        Added; −∞ where hidden. It broadcasts to the shape.
    of_key : tensor, shape (batch, heads, keys, 1), or None
        The bias of each key, 0 where it is −∞: one more value, whose mean is its expectation.
    visible : array of int64, shape (heads, batch · rows)
        Visible keys of each row.
    spells_out_order : bool
        Whether causal order is part of it.
    shape : tuple of int
        Batch, heads, rows, keys.
    """

    bias: Any
    of_key: Any
    visible: Integers
    spells_out_order: bool
    shape: tuple[int, int, int, int]

    def times(self, factor: float) -> Any:
        """Return the bias times a factor, as large as all scores, in no more memory than it has."""
        if self.bias is None:
            return None
        return (self.bias if factor == 1.0 else factor * self.bias).expand(self.shape)

    @classmethod
    def of(cls, call: Call, query: Any) -> Added:
        """Return what is to be added for a query of the dtype to compute in."""
        import torch

        shape = (call.batch, call.num_heads, len(call.rows), call.keys)
        first, past = call.reach(call.rows)
        spelt, mask = is_spelt_out(call), call.mask
        if mask is not None and mask.shape[2] > 1:
            mask = kernels_of(mask).select(mask, call.rows, 2)
        if spelt:
            position = torch.arange(call.keys, device=query.device)
            ends = [torch.from_numpy(end).to(query.device)[:, None] for end in (first, past)]
            within = (position >= ends[0]) & (position < ends[1])
            mask = within if mask is None else mask & within
        bias = of_key = None
        if call.bias is not None:
            shown = call.bias > -torch.inf
            mask = shown if mask is None else mask & shown
            bias = call.bias.to(query.dtype)
            finite = torch.where(shown, bias, 0.0).transpose(-1, -2)
            of_key = finite.expand(*shape[:2], call.keys, 1)
        if mask is None:
            seen = np.broadcast_to(past - first, shape[:3])
        else:
            counted = mask.expand(*mask.shape[:-1], call.keys).sum(-1)
            seen = np.broadcast_to(to_numpy(counted), shape[:3])
            nothing = torch.zeros((), dtype=query.dtype, device=query.device)
            bias = torch.where(mask, nothing if bias is None else bias, -torch.inf)
        visible = np.moveaxis(seen, 0, 1).reshape(call.num_heads, -1).astype(np.int64)
        return cls(bias=bias, of_key=of_key, visible=visible, spells_out_order=spelt, shape=shape)
