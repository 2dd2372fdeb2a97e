"""Compiled sums over entries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from rootdk.engines._numba.vectors import compiled

_IN_LANES = {"reassoc", "contract"}


@compiled(fastmath=_IN_LANES)
def _sum(entries: np.ndarray) -> float:
    total = 0.0
    for at in range(entries.size):
        total += np.float64(entries[at])
    return total


@compiled(fastmath=_IN_LANES)
def _deviations(entries: np.ndarray, shift: float) -> tuple[float, float]:
    total, squares = 0.0, 0.0
    for at in range(entries.size):
        deviation = np.float64(entries[at]) - shift
        total += deviation
        squares += deviation * deviation
    return total, squares


def _signature(kind: Any) -> Any:
    # Entries that may lie anywhere in memory would not be taken in lanes.
    entries = types.Array(kind, 3, "C", readonly=True)
    return types.void(entries, types.int64, types.int64, types.float64[:, ::1])


@compiled([_signature(types.float32), _signature(types.float64)])
def moments(entries: np.ndarray, start: int, stop: int, out: np.ndarray) -> None:
    """Write mean and sum of squared deviations of some heads; NaN where an entry is not finite.

    Parameters
    ----------
    entries : array, shape (rows, num_heads, width)
        Contiguous; all entries of a head may be one row.
    start, stop
        The first of the heads, and the one past the last.
    out : array, shape (num_heads, 2)
        Receives both.
    """
    rows, _, width = entries.shape
    count = max(rows * width, 1)
    for head in range(start, stop):
        mean = 0.0
        for row in range(rows):
            mean += _sum(entries[row, head])
        mean /= count
        # What rounding has left in the mean is taken out of the deviations again.
        left, squares = 0.0, 0.0
        for row in range(rows):
            some, more = _deviations(entries[row, head], mean)
            left += some
            squares += more
        left /= count
        out[head, 0] = mean + left
        out[head, 1] = max(squares - left * left * count, 0.0)
