"""Which keys each row sees, where they are an interval: causal order, windows, segments, masks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rootdk._lib.arrays import Array, to_numpy
from rootdk.engines.call import Call, UnfitError
from rootdk.engines.kernels import Kernels, kernels_of
from rootdk.stats.block import Integers

TOGETHER = 16
"""Heads, of all batch elements, whose rows are taken together."""

_LOOKED_AT = 2**20
"""Scores of a mask looked at together."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Interval:
    """Some heads of some batch elements, and the keys that their rows see.

    Attributes
    ----------
    elements, heads : slice
        Which; heads that share a key-value head are together, or one alone.
    first, past : array of int64, shape (rows,)
        The first key that each row to measure sees, and the key past the last; equal if it
        sees none. Of the rows that see any, both ascend.
    """

    elements: slice
    heads: slice
    first: Integers
    past: Integers


def intervals(call: Call) -> list[Interval]:
    """Return the intervals of a call, of at most :data:`TOGETHER` heads each.

    Raises
    ------
    UnfitError
        If a row does not see all keys from its first to its last, or the rows do not ascend.
    """
    first, past = call.reach(call.rows)
    if call.mask is None:
        return [
            Interval(elements=elements, heads=heads, first=first, past=past)
            for elements, heads in _pieces(call, slice(0, call.batch), slice(0, call.num_heads))
        ]
    found = []
    kernels = kernels_of(call.query)
    for element, head in np.ndindex(call.mask.shape[:2]):
        own = _of_mask(call.mask[element, head], call, kernels)
        begins = np.maximum(first, own[0])
        ends = np.maximum(np.minimum(past, own[1]), begins)
        seen = ends > begins
        if np.any(np.diff(begins[seen]) < 0) or np.any(np.diff(ends[seen]) < 0):
            raise UnfitError("a mask hides scores in no order that sums could follow")
        elements = slice(element, element + 1) if call.mask.shape[0] > 1 else slice(0, call.batch)
        heads = slice(head, head + 1) if call.mask.shape[1] > 1 else slice(0, call.num_heads)
        found += [
            Interval(elements=some, heads=those, first=begins, past=ends)
            for some, those in _pieces(call, elements, heads)
        ]
    return found


def _pieces(call: Call, elements: slice, heads: slice) -> Iterator[tuple[slice, slice]]:
    many = heads.stop - heads.start
    group = call.queries_per_kv_head
    of_heads = max(TOGETHER // group, 1) * group if many > 1 else 1
    of_elements = max(TOGETHER // max(many, 1), 1)
    for start, begin in itertools.product(
        range(elements.start, elements.stop, of_elements), range(heads.start, heads.stop, of_heads)
    ):
        yield (
            slice(start, min(start + of_elements, elements.stop)),
            slice(begin, min(begin + of_heads, heads.stop)),
        )


def _of_mask(mask: Array, call: Call, kernels: Kernels) -> tuple[Integers, Integers]:
    """Return first key and key past the last of each row by a (queries or 1, keys or 1) mask."""
    rows = call.rows if mask.shape[0] > 1 else np.zeros(1, dtype=np.int64)
    step = max(_LOOKED_AT // max(call.keys, 1), 1)
    none = np.zeros(0, dtype=np.int64)
    ends = [(none, none)]
    ends += [
        _ends(kernels.select(mask, rows[start : start + step], 0), call.keys)
        for start in range(0, len(rows), step)
    ]
    first, past = (np.concatenate(each) for each in zip(*ends, strict=True))
    return np.broadcast_to(first, len(call.rows)), np.broadcast_to(past, len(call.rows))


def _ends(mask: Array, keys: int) -> tuple[Integers, Integers]:
    shown = np.broadcast_to(to_numpy(mask), (int(mask.shape[0]), keys))
    if not keys:
        return (np.zeros(len(shown), dtype=np.int64),) * 2
    many = np.count_nonzero(shown, axis=1)
    first = np.argmax(shown, axis=1)
    past = keys - np.argmax(shown[:, ::-1], axis=1)
    past = np.where(many > 0, past, first)
    if np.any(past - first != many):
        raise UnfitError("a mask hides keys between visible ones")
    return first, past
