"""Positions that only fill up a block: left out of the statistics, since they take no part."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from rootdk._lib.arrays import Array, namespace
from rootdk.frontends._sites.masks import Masks
from rootdk.frontends._sites.numbers import picked
from rootdk.frontends._sites.pending import PADS, Pending

__all__ = ["Taking"]

_Marks = npt.NDArray[np.bool_]


class Taking:
    """Which queries and keys of a product take part; None where all do.

    A query is padding where it is zero in every batch and head, on a path that pads; a key where
    besides no query may see it. A visible key of zeros takes part (it is a sink).
    """

    def __init__(self, pending: Pending, rows: Array, columns: Array, masks: Masks) -> None:
        self._by_rows = pending.axis_label == "K"
        query, key = (rows, columns) if self._by_rows else (columns, rows)
        trails = (pending.query_trail, pending.key_trail)
        padded = [trail is not None and bool(PADS & set(trail.steps)) for trail in trails]
        self.queries = _partial(_filled(query)) if padded[0] else None
        filled = _filled(key) if padded[1] else None
        empty = filled is not None and not filled.all()
        seen = _seen(masks.mask, key) if empty else None
        self.keys = _partial(filled | seen) if filled is not None and seen is not None else None

    @property
    def some(self) -> bool:
        """Whether some positions are left out."""
        return self.queries is not None or self.keys is not None

    def operands(self, rows: Array, columns: Array) -> tuple[Array, Array]:
        """The operands, (leading…, positions, head_dim), without padding."""
        first, second = (self.queries, self.keys) if self._by_rows else (self.keys, self.queries)
        return _taken(rows, first, -2), _taken(columns, second, -2)

    def masks(self, masks: Masks) -> Masks:
        """What hides and what is added, (b, h, queries, keys), without padding."""
        return replace(
            masks,
            mask=None if masks.mask is None else self._both(masks.mask),
            bias=None if masks.bias is None else self._both(masks.bias),
        )

    def value(self, value: Array | None) -> Array | None:
        """The values, (b, h, keys, value_dim), without padding."""
        return None if value is None else _taken(value, self.keys, -2)

    def _both(self, array: Array) -> Array:
        return _taken(_taken(array, self.queries, -2), self.keys, -1)


def _filled(array: Array) -> _Marks:
    """Where a position holds anything but zeros, in any batch and head."""
    xp = namespace(array)
    rank = len(array.shape)
    if 0 not in array.shape:
        # One head fills most positions, and then the others need no look.
        first = picked(xp.any(array[(0,) * (rank - 2)] != 0, axis=-1), ()).astype(np.bool_)
        if first.all():
            return first
    others = tuple(i for i in range(rank) if i != rank - 2)
    return picked(xp.any(array != 0, axis=others), ()).astype(np.bool_)


def _seen(mask: Array | None, key: Array) -> _Marks | None:
    """Which keys any query may see; None where no mask says."""
    if mask is None or mask.shape[-1] != key.shape[-2]:
        return None
    xp = namespace(mask)
    return picked(xp.any(mask, axis=tuple(range(len(mask.shape) - 1))), ()).astype(np.bool_)


def _partial(marks: _Marks) -> _Marks | None:
    """The marks, if some positions are out and some in."""
    return marks if bool(marks.any()) and not bool(marks.all()) else None


def _taken(array: Array, taking: _Marks | None, axis: int) -> Array:
    if taking is None or array.shape[axis] == 1:
        return array
    xp = namespace(array)
    at = xp.asarray(np.nonzero(taking)[0], device=array.device)
    return xp.take(array, at, axis=axis)
