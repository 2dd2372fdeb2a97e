"""Compiled sums over entries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from rootdk.engines._numba.vectors import compiled

_IN_LANES = {"reassoc", "contract"}


def _given(kind: Any) -> Any:
    return types.Array(kind, 2, "A", readonly=True)


_FLOAT64 = types.float64
_TUPLE: Any = types.UniTuple
_PAIR = _TUPLE(types.float64, 2)
_ENTRIES = (_given(types.float32), _given(_FLOAT64))


@compiled(fastmath=_IN_LANES)
def _sum(row: np.ndarray, shift: float) -> float:
    total = 0.0
    for at in range(row.size):
        total += np.float64(row[at]) - shift
    return total


@compiled(fastmath=_IN_LANES)
def _squares(row: np.ndarray, shift: float) -> float:
    total = 0.0
    for at in range(row.size):
        deviation = np.float64(row[at]) - shift
        total += deviation * deviation
    return total


@compiled([_PAIR(entries) for entries in _ENTRIES])
def moments(array: np.ndarray) -> tuple[float, float]:
    """Return mean and sum of squared deviations of all entries; NaN where one is not finite."""
    rows, width = array.shape
    count = max(rows * width, 1)
    mean = 0.0
    for row in range(rows):
        mean += _sum(array[row], 0.0)
    mean /= count
    # What rounding has left in the mean is taken out of the deviations again.
    left, m2 = 0.0, 0.0
    for row in range(rows):
        left += _sum(array[row], mean)
        m2 += _squares(array[row], mean)
    left /= count
    return mean + left, max(m2 - left * left * count, 0.0)
