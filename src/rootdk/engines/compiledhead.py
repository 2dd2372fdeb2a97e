"""One head as compiled code wants it: its queries, its keys in panels, what hides keys."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from rootdk._lib.arrays import Array, float_info, is_torch, to_numpy
from rootdk.engines.call import Call, UnfitError
from rootdk.engines.workers import float32_at_least
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
        By how much a score may be off, to first order.
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

    def gaps(
        self, call: Call, rows: Integers, first: Integers, past: Integers
    ) -> Sequence[Floats] | Floats:
        """Return the final scores of the visible keys of rows less the largest of each."""
        found: list[Any] = []
        past = np.minimum(past, self.keys.count)
        alike = self._plain(call) and not call.ordered
        step = max(_AGAIN // max(self.keys.count, 1), 1)
        for start in range(0, len(rows), step):
            some = slice(start, start + step)
            entries = self.query[rows[some]].astype(np.float64)
            scores = self._scores_of((entries * call.scale).astype(np.float32))
            if alike:
                found.append(scores - np.max(scores, axis=1, keepdims=True))
                continue
            for at, row in enumerate(rows[some].tolist()):
                reach = slice(int(first[start + at]), int(past[start + at]))
                found.append(self._gaps_of(call, row, entries[at], scores[at], reach))
        if not alike:
            return found
        return np.concatenate(found) if len(found) > 1 else found[0]

    def _plain(self, call: Call) -> bool:
        """Tell whether final scores are scores, and order alone hides any."""
        return call.softcap is None and not self.mask.size and not self.bias.shape[0]

    def _scores_of(self, queries: Floats) -> Any:
        """Return the scores of queries, which are scaled already; (rows, keys)."""
        keys, depth = self.keys, queries.shape[1]
        panels = keys.laid.reshape(-1, depth, self.kernels.PANEL)
        together = np.matmul(queries, panels).transpose(1, 0, 2)
        return together.reshape(len(queries), -1)[:, : keys.count]

    def _gaps_of(self, call: Call, row: int, entries: Floats, scores: Any, reach: slice) -> Floats:
        scores = scores[reach]
        if self._plain(call):
            return np.asarray(scores - np.max(scores, initial=-np.inf))
        if call.softcap is not None:
            whole = scores + call.scale * float(np.dot(entries, self.keys.centre))
            scores = call.softcap * np.tanh(whole / call.softcap)
        seen = self.mask[row, reach] if self.mask.size else np.full(len(scores), fill_value=True)
        start, added = self.bias_of(np.asarray([row]))
        if added.size:
            of_row = added[row - start, reach].astype(np.float64)
            seen = seen & (of_row > -np.inf)
            scores = scores + (of_row - np.max(of_row[seen], initial=-np.inf))
        scores = scores[seen]
        return np.asarray(scores - np.max(scores, initial=-np.inf))


def lay_out(key: Any, shown: Booleans | None, kernels: ModuleType) -> Keys:
    """Return keys, those that are shown, in panels."""
    of_call, first = len(key), shown is None or bool(np.broadcast_to(shown, len(key))[0])
    if shown is not None:
        key = key[np.broadcast_to(shown, len(key))]
    centre = np.zeros(key.shape[1])
    panels = -(-len(key) // kernels.PANEL)
    laid = np.empty(panels * kernels.PANEL * key.shape[1], dtype=np.float32)
    largest = kernels.lay_out(key, centre, laid)
    if not math.isfinite(largest):
        raise UnfitError("a key is not finite, or too large for float32")
    return Keys(
        centre=centre,
        laid=laid,
        count=len(key),
        of_call=of_call,
        largest=math.sqrt(largest),
        first=first,
    )


def is_padding(call: Call) -> bool:
    """Tell whether the mask hides the same keys from all rows, and nothing else hides any."""
    mask = call.mask
    return mask is not None and mask.shape[2] == 1 and call.bias is None and not call.ordered


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
