"""Keys and queries as the compiled engine wants them: keys in panels, and how long either are."""

from __future__ import annotations

import numpy as np
from numba import types

from rootdk.engines._numba.vectors import PANEL, as_contiguous, compiled, given_as

_FLOAT32, _FLOAT64, _INT64 = types.float32, types.float64, types.int64


@compiled(fastmath={"contract", "reassoc"})
def _largest_of_panel(panel: np.ndarray, depth: int) -> float:
    """Return the largest squared norm of the keys of a panel; infinity if one is not finite."""
    squares = np.zeros(PANEL, dtype=np.float32)
    for at in range(depth):
        entries = panel[at * PANEL : (at + 1) * PANEL]
        for lane in range(PANEL):
            squares[lane] += entries[lane] * entries[lane]
    largest = np.float32(0.0)
    for lane in range(PANEL):
        largest = max(largest, squares[lane] if squares[lane] < np.inf else np.float32(np.inf))
    return np.float64(largest)


_LAYING = types.void(
    *(given_as(_FLOAT32, 3), _INT64, _INT64),
    *(_FLOAT64[:, ::1], _FLOAT32[:, ::1], _FLOAT64[::1]),
)


@compiled(_LAYING)
def lay_out(
    key: np.ndarray,
    start: int,
    stop: int,
    centre: np.ndarray,
    laid: np.ndarray,
    largest: np.ndarray,
) -> None:
    """Write the mean of some heads' keys, and panels of them less that.

    Keys are taken in the order in which they lie in memory, head by head or row by row.

    Parameters
    ----------
    key : array, shape (heads, keys, head_dim)
        As given.
    start, stop
        The first of the heads, and the one past the last.
    centre : array, shape (heads, head_dim)
        Receives the means.
    laid : array, shape (heads, panels · head_dim · PANEL)
        Receives the panels, ``[panel][head_dim][PANEL]``; 0 past the end.
    largest : array, shape (heads,)
        Receives the largest squared norm of a key less the mean; infinity if one is not finite.
    """
    _, keys, depth = key.shape
    centre[start:stop] = 0.0
    largest[start:stop] = 0.0
    # Where heads lie side by side, going through one at a time would wait for memory at each row.
    together = max(stop - start, 1) if abs(key.strides[0]) < abs(key.strides[1]) else 1
    for first in range(start, stop, together):
        heads = range(first, first + together)
        for row in range(keys):
            for head in heads:
                for at in range(depth):
                    centre[head, at] += np.float64(key[head, row, at])
        for head in heads:
            for at in range(depth):
                centre[head, at] /= max(keys, 1)
        for base in range(0, keys, PANEL):
            for lane in range(PANEL):
                row = base + lane
                for head in heads:
                    for at in range(depth):
                        place = base * depth + at * PANEL + lane
                        if row < keys:
                            deviation = np.float64(key[head, row, at]) - centre[head, at]
                            laid[head, place] = np.float32(deviation)
                        else:
                            laid[head, place] = np.float32(0.0)
            for head in heads:
                panel = laid[head, base * depth : (base + PANEL) * depth]
                largest[head] = max(largest[head], _largest_of_panel(panel, depth))


@compiled(fastmath={"contract", "reassoc"})
def _squares(entries: np.ndarray) -> float:
    total = np.float32(0.0)
    for at in range(entries.size):
        total += entries[at] * entries[at]
    return np.float64(total)


@compiled(types.void(given_as(_FLOAT32, 3), given_as(_INT64, 1), _FLOAT64[::1]))
def largest_norms(query: np.ndarray, rows: np.ndarray, largest: np.ndarray) -> None:
    """Write the largest squared norm of some rows of each head; infinity if one is not finite.

    Shapes: (heads, queries, head_dim), (rows,) and (heads,).
    """
    heads = query.shape[0]
    largest[:] = 0.0
    together = max(heads, 1) if abs(query.strides[0]) < abs(query.strides[1]) else 1
    for first in range(0, heads, together):
        for row in rows:
            for head in range(first, first + together):
                if query.strides[2] == query.itemsize:
                    square = _squares(as_contiguous(query[head, row]))
                else:
                    square = _squares(query[head, row])
                largest[head] = max(largest[head], square if square < np.inf else np.inf)
