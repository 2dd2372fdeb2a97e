"""What the rows of a block do not see."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from rootdk._lib.arrays import Array, Dtype, to_numpy
from rootdk.engines.call import Call
from rootdk.engines.kernels import Kernels, kernels_of
from rootdk.stats.block import Integers


def mask_of(call: Call, element: int, heads: slice, rows: Integers, span: slice) -> Array | None:
    """Return which scores of some rows are visible, (heads or 1, rows, keys); None if all are."""
    xp, kernels = call.xp, kernels_of(call.query)
    first, past = call.reach(rows)
    mask = part_of(call.mask, element, heads, rows, span)
    bias = part_of(call.bias, element, heads, rows, span)
    if bias is not None:
        shown = bias != -np.inf
        mask = shown if mask is None else mask & shown
    if np.all(first == span.start) and np.all(past == span.stop):
        shape = (1, len(rows), span.stop - span.start)
        return None if mask is None else xp.broadcast_to(mask, (mask.shape[0], *shape[1:]))
    position = xp.arange(span.start, span.stop, device=call.query.device)
    ends = (kernels.as_index(end, call.query)[:, None] for end in (first, past))
    within = ((position >= next(ends)) & (position < next(ends)))[None]
    return within if mask is None else within & mask


def part_of(
    array: Array | None, element: int, heads: slice, rows: Integers, span: slice
) -> Array | None:
    """Return what a broadcast (batch, num_heads, queries, keys) array says of some rows."""
    if array is None:
        return None
    part = array[element if array.shape[0] > 1 else 0]
    part = part[heads] if part.shape[0] > 1 else part
    part = kernels_of(part).select(part, rows, 1) if part.shape[1] > 1 else part
    return part[..., span] if part.shape[2] > 1 else part


def is_padding(call: Call) -> bool:
    """Tell whether the mask hides the same keys from all rows, and nothing else hides any."""
    mask = call.mask
    return mask is not None and mask.shape[2] == 1 and call.bias is None and not call.ordered


Reach: TypeAlias = tuple[Integers, Integers]
"""The first key that each of some rows may see, and the one past its last."""


class Shown:
    """What rows see of some keys.

    Attributes
    ----------
    ones : array, shape (heads or 1, rows, keys)
        1 for a key that is seen, 0 for others.
    """

    def __init__(self, ones: Array) -> None:
        self.ones = ones

    @cached_property
    def absent(self) -> Array:
        """1 for each key that is not seen, 0 for others."""
        return 1.0 - self.ones


@dataclass(frozen=True, eq=False)
class Hidden:
    """What the rows of a block do not see, by ranges of keys outside which they see all.

    Attributes
    ----------
    seen : array of int64, shape (heads or 1, rows)
        Visible keys of each row.
    parts : list of (slice, Shown)
        Ranges of keys, and what rows see of them.
    kernels : Kernels
        The library of the scores.
    """

    seen: Integers
    parts: list[tuple[slice, Shown]]
    kernels: Kernels

    def leave_out(self, scores: Array) -> None:
        """Write 0 over what is not seen."""
        for keys, shown in self.parts:
            of_part = scores[..., keys]
            self.kernels.multiply(of_part, shown.ones, of_part)

    def fill(self, scores: Array, values: Array) -> None:
        """Write values, (heads, rows, 1), over what is not seen, where 0 stands."""
        for keys, shown in self.parts:
            self.kernels.add_products(scores[..., keys], shown.absent, values)


class Edges:
    """What rows see of ranges of keys, remembered: edges of rows in causal order all look alike.

    Parameters
    ----------
    kernels : Kernels
        The library of the scores.
    """

    def __init__(self, kernels: Kernels) -> None:
        self.kernels = kernels
        self._of_rows: dict[tuple[bytes, Dtype], tuple[Hidden, slice]] = {}
        self._known: dict[tuple[bytes, bytes, int, Dtype], Shown] = {}

    def _shown(self, reach: Reach, keys: slice, like: Array) -> Shown:
        """Return what rows see of a range of keys, in numbers of the dtype of an array."""
        many = keys.stop - keys.start
        first, past = (np.minimum(np.maximum(end - keys.start, 0), many) for end in reach)
        place = (first.tobytes(), past.tobytes(), many, like.dtype)
        if place not in self._known:
            position = np.arange(many)
            within = (position >= first[:, None]) & (position < past[:, None])
            if len(self._known) >= _KNOWN:
                self._known.clear()
                self._of_rows.clear()  # so that these hold no edges beside those
            ones = self.kernels.as_array(within.astype(np.float64), like)
            self._known[place] = Shown(ones[None])
        return self._known[place]

    def hidden(
        self, call: Call, place: tuple[int, slice], rows: Integers, reach: Reach, like: Array
    ) -> tuple[Hidden, slice]:
        """Return what rows of an element's heads do not see of a range of keys, and the range.

        Numbers are of the dtype of an array.
        """
        if call.mask is not None:
            return _masked(call, place, rows, reach, like, self.kernels)
        known = rows.tobytes(), like.dtype
        if known not in self._of_rows:
            found = self._ordered(call, reach, like)
            if len(self._of_rows) >= _ROWS:
                self._of_rows.clear()
            self._of_rows[known] = found
        return self._of_rows[known]

    def _ordered(self, call: Call, reach: Reach, like: Array) -> tuple[Hidden, slice]:
        span, (first, past) = span_of(call, reach), reach
        ends = [(span.start, int(np.max(first))), (int(np.min(past)), span.stop)]
        if ends[0][1] > ends[1][0]:
            ends = [(span.start, span.stop)]
        parts = [
            (
                slice(start - span.start, stop - span.start),
                self._shown(reach, slice(start, stop), like),
            )
            for start, stop in ends
            if start < stop
        ]
        return Hidden((past - first)[None], parts, self.kernels), span


_KNOWN = 4
"""Edges that are remembered."""

_ROWS = 64
"""Blocks of rows whose hidden keys are remembered: other heads have the same ones."""


def span_of(call: Call, reach: Reach) -> slice:
    """Return the range of keys that rows may see, one at least."""
    first, past = reach
    start = min(int(np.min(first)), call.keys - 1)
    return slice(start, max(int(np.max(past)), start + 1))


def _masked(
    call: Call,
    place: tuple[int, slice],
    rows: Integers,
    reach: Reach,
    like: Array,
    kernels: Kernels,
) -> tuple[Hidden, slice]:
    span = span_of(call, reach)
    mask = mask_of(call, *place, rows, span)
    assert mask is not None
    ones = kernels.ones(kernels.own(mask), like)
    seen = to_numpy(kernels.namespace.sum(ones, axis=-1)).astype(np.int64)
    return Hidden(seen, [(slice(None), Shown(ones))], kernels), span
