"""Compiled sums over entries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from rootdk.engines._numba.vectors import compiled

_PILOT = 64
"""Entries whose mean all are taken about first."""

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


@compiled()
def _add_deviations(
    entries: np.ndarray, start: int, stop: int, about: np.ndarray, out: np.ndarray
) -> None:
    """Write sums of deviations of some heads, and of their squares, in the order of memory."""
    out[start:stop] = 0.0
    for row in range(entries.shape[0]):
        for head in range(start, stop):
            some, more = _deviations(entries[row, head], about[head])
            out[head, 0] += some
            out[head, 1] += more


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
    rows, heads, width = entries.shape
    count = max(rows * width, 1)
    few = min(width, _PILOT)
    about = np.zeros(heads)
    for head in range(start, stop):
        # The mean of the first few is near enough to the mean of all, most often.
        about[head] = _sum(entries[0, head, :few]) / few if rows * width else 0.0
    _add_deviations(entries, start, stop, about, out)
    for head in range(start, stop):
        left, squares = out[head]
        if not left * left * 2.0 < squares * count or not squares < np.inf:
            total = 0.0
            for row in range(rows):
                total += _sum(entries[row, head])
            about[head] = total / count
            _add_deviations(entries, head, head + 1, about, out)
            left, squares = out[head]
        # What is left in the mean is taken out of the deviations again.
        left /= count
        out[head, 0] = about[head] + left
        out[head, 1] = max(squares - left * left * count, 0.0)
