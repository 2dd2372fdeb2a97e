"""One head as compiled code wants it: its queries, its keys in panels, what hides keys."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from rootdk._lib.arrays import Array, float_info, is_torch, to_numpy
from rootdk.engines.call import Call, UnfitError
from rootdk.engines.hiding import is_padding
from rootdk.engines.hostarrays import by_head
from rootdk.engines.workers import Workers, float32_at_least
from rootdk.stats.block import Booleans, Floats, Integers

_AGAIN = 2**18
"""Scores that are computed anew at once, unless a row has more."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Keys:
    """The keys of some head as compiled code wants them.

    Attributes
    ----------
    centre : array, shape (head_dim,)
        Their mean.
    laid : array
        They less their mean, in panels.
    count, of_call : int
        How many are laid out, and how many the call has.
    largest : float
        Largest norm of a key less the mean.
    first : bool
        Whether key 0 of the call is among them.
    """

    centre: Floats
    laid: Any
    count: int
    of_call: int
    largest: float
    first: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class Head:
    """What the rows of one head are measured with.

    Attributes
    ----------
    query : array, shape (queries, head_dim)
        As given, of float32 at least.
    keys : Keys
        The keys.
    error : float
        By how much a score may be off, to first order, as a part of the norm of its scaled query.
    mask, bias : array, shape (queries, keys) or (0, 0)
        Empty if there is none; the bias may be of a half type, and of one row for all.
    kernels : module
        What is compiled.
    """

    query: Any
    keys: Keys
    error: float
    mask: Booleans
    bias: Any
    kernels: ModuleType

    def bias_of(self, rows: Integers) -> tuple[int, Any]:
        """Return the first row of a bias and its values; half types are converted row by row."""
        if isinstance(self.bias, np.ndarray) and self.bias.dtype.itemsize > 2:
            return 0, self.bias
        start, stop = int(rows[0]), int(rows[-1]) + 1
        part = self.bias if self.bias.shape[0] == 1 else self.bias[start:stop]
        part = float32_at_least(part)
        return start, np.broadcast_to(part, (stop - start, self.keys.of_call))

    def final_scores(self, rows: Integers, reach: tuple[Integers, Integers], call: Call) -> Any:
        """Return final scores, (rows, keys), less a number for each row; −∞ where hidden."""
        entries = self.query[rows].astype(np.float64)
        depth, panels = entries.shape[1], self.keys.laid
        scaled = (entries * call.scale).astype(np.float32)
        by_panel = np.matmul(scaled, panels.reshape(-1, depth, self.kernels.PANEL))
        scores: Any = by_panel.transpose(1, 0, 2).reshape(len(rows), -1)[:, : self.keys.count]
        if call.softcap is not None:
            whole = scores + call.scale * np.dot(entries, self.keys.centre)[:, None]
            scores = call.softcap * np.tanh(whole / call.softcap)
        if call.ordered:
            key, (first, past) = np.arange(self.keys.count), (side[:, None] for side in reach)
            scores[(key < first) | (key >= past)] = -np.inf
        if self.mask.size:
            scores = np.where(self.mask[rows], scores, -np.inf)
        if self.bias.shape[0]:
            part = self.bias[rows] if self.bias.shape[0] > 1 else self.bias
            added = float32_at_least(part).astype(np.float64)
            visible = np.where(scores > -np.inf, added, -np.inf)
            # A row filled with −1e9 throughout keeps the digits of its scores.
            scores = scores + (visible - np.max(visible, axis=1, keepdims=True))
        return scores


def gaps(
    heads: Sequence[Head],
    places: tuple[Integers, Integers],
    call: Call,
    reach: tuple[Integers, Integers],
) -> Iterator[Floats]:
    """Yield how far final scores are below the largest, of some rows at a time; ∞ where hidden.

    Parameters
    ----------
    heads : sequence of Head
        All heads.
    places : tuple of arrays, shape (rows,)
        Head and row of each row; heads ascend.
    call : Call
        Whose rows they are.
    reach : tuple of arrays, shape (rows,)
        The keys within reach of each row.
    """
    width = max(head.keys.count for head in heads)
    step = max(_AGAIN // max(width, 1), 1)
    for start in range(0, len(places[0]), step):
        some = slice(start, start + step)
        at, rows, first, past = (side[some] for side in (*places, *reach))
        scores = np.full((len(at), width), -np.inf, dtype=_dtype(call))
        for number, group in by_head(at):
            head = heads[number]
            of_group = first[group], past[group]
            scores[group, : head.keys.count] = head.final_scores(rows[group], of_group, call)
        yield np.subtract(np.max(scores, axis=1, keepdims=True), scores, out=scores)


def _dtype(call: Call) -> Any:
    return np.float32 if call.softcap is None and call.bias is None else np.float64


def lay_out(key: Any, shown: Booleans | None, workers: Workers) -> list[Keys]:
    """Return the keys of each head, (heads, keys, head_dim), those that are shown, in panels."""
    from rootdk.engines._numba import panels
    from rootdk.engines._numba.vectors import PANEL

    heads, of_call, depth = key.shape
    first = True
    if shown is not None:
        shown = np.broadcast_to(shown, of_call)
        key, first = key[:, shown], bool(shown[:1].all())
    count = key.shape[1]
    centre, largest = np.empty((heads, depth)), np.empty(heads)
    laid = np.empty((heads, -(-count // PANEL) * PANEL * depth), dtype=np.float32)

    def write(share: tuple[int, int]) -> None:
        panels.lay_out(key, *share, centre, laid, largest)

    list(workers.map(write, workers.shares(heads)))
    if not np.isfinite(largest).all():
        raise UnfitError("a key is not finite, or too large for float32")
    return [
        Keys(
            centre=centre[head],
            laid=laid[head],
            count=count,
            of_call=of_call,
            largest=math.sqrt(largest[head]),
            first=first,
        )
        for head in range(heads)
    ]


def hidden(call: Call, element: int, head: int) -> tuple[Booleans, Any]:
    """Return mask and bias of a head, (queries, keys), each empty if there is none."""
    shape = (call.queries, call.keys)
    mask, bias = np.zeros((0, 0), dtype=np.bool_), np.zeros((0, 0), dtype=np.float32)
    if call.mask is not None and not is_padding(call):
        mask = np.broadcast_to(to_numpy(of_head(call.mask, element, head)), shape)
    if call.bias is not None:
        part = of_head(call.bias, element, head)
        if float_info(part).bits == 16:
            return mask, part
        bias = np.broadcast_to(to_numpy(part), shape)
    return mask, bias


def of_head(array: Array, element: int, head: int) -> Any:
    """Return what a broadcast (batch, num_heads, queries, keys) array says of one head."""
    part = array[element if array.shape[0] > 1 else 0][head if array.shape[1] > 1 else 0]
    return part if is_torch(part) else to_numpy(part)
