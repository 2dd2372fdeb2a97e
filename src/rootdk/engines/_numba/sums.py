"""Compiled sums over entries: their moments, and mean and scatter of the keys that rows see."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from rootdk.engines._numba.vectors import compiled

_IN_LANES = {"reassoc", "contract"}

STEP = 64
"""Keys, and rows, taken together."""


def _given(kind: Any) -> Any:
    return types.Array(kind, 2, "A", readonly=True)


_FLOAT64, _INT64 = types.float64, types.int64
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


@compiled(fastmath={"reassoc"})
def _nothings(row: np.ndarray) -> Any:
    total = row[0] * row.dtype.type(0.0)
    for at in range(row.size):
        total += row[at] * row.dtype.type(0.0)
    return total


@compiled([types.boolean(entries) for entries in _ENTRIES])
def are_finite(array: np.ndarray) -> bool:
    """Tell whether all entries of an array that is not empty are finite."""
    total = 0.0
    for row in range(array.shape[0]):
        # Nothing times infinity is not a number, and stays none in a sum.
        total += np.float64(_nothings(array[row]))
    return total == 0.0


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


@compiled(fastmath=_IN_LANES)
def _add_products(four: np.ndarray, scatter: np.ndarray) -> None:
    """Add the products of four keys with themselves to the upper triangle of a scatter."""
    depth = scatter.shape[0]
    for at in range(depth):
        a, b, c, d = four[0, at], four[1, at], four[2, at], four[3, at]
        of_row = scatter[at, at:]
        first, second, third, fourth = four[0, at:], four[1, at:], four[2, at:], four[3, at:]
        for other in range(depth - at):
            of_row[other] += (
                a * first[other] + b * second[other] + c * third[other] + d * fourth[other]
            )


@compiled()
def _take_in(
    key: np.ndarray, start: int, stop: int, mean: np.ndarray, scatter: np.ndarray, four: np.ndarray
) -> None:
    """Merge keys from start to stop into the mean and the scatter of those before start.

    As for sums of squares (Chan, Golub and LeVeque 1983, eq. 2.1), with the outer product
    of the gap in place of its square.
    """
    depth, many = key.shape[1], stop - start
    centre = np.zeros(depth)
    for row in range(start, stop):
        for at in range(depth):
            centre[at] += np.float64(key[row, at])
    centre /= many
    for row in range(start, stop, 4):
        for place in range(4):
            for at in range(depth):
                four[place, at] = (
                    np.float64(key[row + place, at]) - centre[at] if row + place < stop else 0.0
                )
        _add_products(four, scatter)
    share = many / (start + many)
    for at in range(depth):
        centre[at] -= mean[at]
    for at in range(depth):
        for other in range(at, depth):
            scatter[at, other] += centre[at] * centre[other] * (start * share)
    for at in range(depth):
        mean[at] += centre[at] * share


@compiled(fastmath=_IN_LANES)
def _form(query: np.ndarray, doubled: np.ndarray) -> float:
    """Return the quadratic form of a query with an upper triangle, off-diagonals doubled."""
    depth, total = query.size, 0.0
    for at in range(depth):
        of_row, entries = doubled[at, at:], query[at:]
        part = 0.0
        for other in range(depth - at):
            part += of_row[other] * entries[other]
        total += query[at] * part
    return total


@compiled(fastmath=_IN_LANES)
def _dot(left: np.ndarray, right: np.ndarray) -> float:
    total = 0.0
    for at in range(left.size):
        total += left[at] * right[at]
    return total


@compiled()
def _doubled(scatter: np.ndarray, doubled: np.ndarray) -> None:
    depth = scatter.shape[0]
    for at in range(depth):
        doubled[at, at] = scatter[at, at]
        for other in range(at + 1, depth):
            doubled[at, other] = 2.0 * scatter[at, other]


@compiled()
def _with_edge(
    query: np.ndarray,
    edge: np.ndarray,
    many: int,
    scores: np.ndarray,
    count: int,
    mean: float,
    m2: float,
) -> tuple[float, float]:
    """Merge the scores of the first keys of an edge into mean and deviations of others."""
    if many == 0:
        return mean, m2
    total = 0.0
    for at in range(many):
        scores[at] = _dot(query, edge[at])
        total += scores[at]
    own = total / many
    squares = _squares(scores[:many], own)
    share = many / (count + many)
    gap = own - mean
    return mean + gap * share, m2 + squares + gap * gap * count * share


@compiled(
    [
        types.void(entries, _given_rows, _INT64[::1], entries, _FLOAT64[::1], _FLOAT64[::1])
        for entries in _ENTRIES
        for _given_rows in (types.Array(_INT64, 1, "A", readonly=True),)
    ]
)
def rows_that_begin_together(
    query: np.ndarray,
    rows: np.ndarray,
    past: np.ndarray,
    key: np.ndarray,
    means: np.ndarray,
    m2s: np.ndarray,
) -> None:
    """Write mean and squared deviations of each row's unscaled scores over the keys to ``past``.

    The ends ascend. Keys that all rows of a step see are one mean and one scatter; the
    others are scored one by one.
    """
    depth = query.shape[1]
    mean, scatter, doubled = np.zeros(depth), np.zeros((depth, depth)), np.zeros((depth, depth))
    four, entries = np.zeros((4, depth)), np.zeros(depth)
    edge, scores = np.zeros((2 * STEP, depth)), np.zeros(2 * STEP)
    core, start = 0, 0
    while start < len(rows):
        whole = past[start] // STEP * STEP if past[start] < key.shape[0] else past[start]
        stop = start
        while stop < min(start + STEP, len(rows)) and past[stop] <= whole + 2 * STEP:
            stop += 1
        if whole > core:
            while core < whole:
                reach = min((core // STEP + 1) * STEP, whole)
                _take_in(key, core, reach, mean, scatter, four)
                core = reach
            _doubled(scatter, doubled)
        for row in range(core, past[stop - 1]):
            for at in range(depth):
                edge[row - core, at] = np.float64(key[row, at])
        for row in range(start, stop):
            for at in range(depth):
                entries[at] = np.float64(query[rows[row], at])
            centre, m2 = 0.0, 0.0
            if core:
                centre, m2 = _dot(entries, mean), max(_form(entries, doubled), 0.0)
            centre, m2 = _with_edge(entries, edge, past[row] - core, scores, core, centre, m2)
            means[row], m2s[row] = centre, m2
        start = stop
