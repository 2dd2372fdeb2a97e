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


_tuple: Any = types.UniTuple


def _signature(kind: Any) -> Any:
    # Entries that may lie anywhere in memory would not be taken in lanes.
    return _tuple(types.float64, 2)(types.Array(kind, 1, "C", readonly=True))


@compiled([_signature(types.float32), _signature(types.float64)])
def moments(entries: np.ndarray) -> tuple[float, float]:
    """Return mean and sum of squared deviations; NaN where an entry is not finite."""
    count = max(entries.size, 1)
    mean = _sum(entries) / count
    # What rounding has left in the mean is taken out of the deviations again.
    left, squares = _deviations(entries, mean)
    left /= count
    return mean + left, max(squares - left * left * count, 0.0)
