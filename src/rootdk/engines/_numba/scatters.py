"""Scatters of entries, and in causal order the sums of scores that follow from them.

Products run in float32 over a chunk of rows, and are summed in float64. Everything is taken
about a pilot: see ``rootdk.engines.scatter``. What is not finite stays so.
"""

from __future__ import annotations

import math

import numpy as np
from numba import types

from rootdk.engines._numba.vectors import (
    PANEL,
    ROWS,
    SQUARE_PANEL,
    SQUARE_ROWS,
    as_contiguous,
    compiled,
    given_as,
    product,
    square,
)

CHUNK = 128
"""Rows, or keys, whose products are summed in float32."""

WITHIN, ERROR = range(2)
"""What is written of a head: squared deviations within rows; what rounding adds to their error."""

_ANY_ORDER = {"contract", "reassoc"}
_FLOAT32, _FLOAT64, _INT64 = types.float32, types.float64, types.int64
_ENTRIES = given_as(_FLOAT32, 2)


@compiled()
def _wide(depth: int) -> int:
    """Return head_dim, rounded up to whole panels of a square."""
    return -(-depth // SQUARE_PANEL) * SQUARE_PANEL


@compiled()
def _less(row: np.ndarray, about: np.ndarray, out: np.ndarray) -> None:
    for at in range(about.size):
        out[at] = row[at] - about[at]


@compiled()
def _held(
    array: np.ndarray, rows: np.ndarray, start: int, many: int, about: np.ndarray, out: np.ndarray
) -> None:
    """Write rows less a vector, ``[row][wide]``; what lies past head_dim is left alone."""
    depth = array.shape[1]
    wide = _wide(depth)
    for place in range(many):
        row = array[rows[start + place]]
        into = out[place * wide : place * wide + depth]
        if row.strides[0] == row.itemsize:
            _less(as_contiguous(row), about, into)
        else:
            _less(row, about, into)


@compiled(fastmath=_ANY_ORDER)
def _column_sums(held: np.ndarray, many: int, wide: int, out: np.ndarray) -> None:
    """Write the sum of each column."""
    out[:] = np.float32(0.0)
    for place in range(many):
        row = held[place * wide : (place + 1) * wide]
        for at in range(wide):
            out[at] += row[at]


@compiled()
def _squared(held: np.ndarray, many: int, wide: int, out: np.ndarray) -> None:
    """Write the sums of outer products of rows, ``[wide][wide]``, on and above the diagonal."""
    for left in range(0, wide, SQUARE_PANEL):
        for top in range(0, left + SQUARE_PANEL, SQUARE_ROWS):
            square(held, top, wide, held, left, wide, out, top * wide + left, many, wide)


@compiled()
def _added(squares: np.ndarray, wide: int, products: np.ndarray) -> None:
    """Add what stands on and above the diagonal."""
    depth = products.shape[0]
    for at in range(depth):
        of_row, into = squares[at * wide : at * wide + depth], products[at]
        for other in range(at, depth):
            into[other] += np.float64(of_row[other])


@compiled()
def _mirrored(products: np.ndarray) -> None:
    """Write what stands above the diagonal below it, too."""
    for at in range(products.shape[0]):
        for other in range(at):
            products[at, other] = products[other, at]


@compiled(
    types.void(
        *(_ENTRIES, given_as(_INT64, 1), _INT64, _INT64, _FLOAT32[::1]),
        *(_FLOAT64[::1], _FLOAT64[:, ::1]),
    )
)
def scatter(
    array: np.ndarray,
    rows: np.ndarray,
    start: int,
    stop: int,
    pilot: np.ndarray,
    total: np.ndarray,
    products: np.ndarray,
) -> None:
    """Write the sum of rows less a pilot, (head_dim,), and of their outer products; given as 0."""
    depth = array.shape[1]
    wide = _wide(depth)
    held = np.zeros(CHUNK * wide, dtype=np.float32)
    squares = np.empty(wide * wide, dtype=np.float32)
    sums = np.empty(wide, dtype=np.float32)
    for base in range(start, stop, CHUNK):
        many = min(CHUNK, stop - base)
        _held(array, rows, base, many, pilot, held)
        _column_sums(held, many, wide, sums)
        for at in range(depth):
            total[at] += np.float64(sums[at])
        _squared(held, many, wide, squares)
        _added(squares, wide, products)
    _mirrored(products)


@compiled(fastmath=_ANY_ORDER)
def _contracted(
    own: np.ndarray, of_keys: np.ndarray, sizes: np.ndarray, wide: int
) -> tuple[float, float]:
    """Return ⟨A, B⟩, and what errs in it at random, of matrices known above the diagonal."""
    depth = of_keys.shape[0]
    within, unsure = 0.0, 0.0
    for at in range(depth):
        mine = own[at * wide : at * wide + depth]
        theirs = of_keys[at]
        some, size = 0.0, np.float32(0.0)
        for other in range(at + 1, depth):
            some += np.float64(mine[other]) * theirs[other]
            size += mine[other] * mine[other] * sizes[other]
        within += 2.0 * some + np.float64(mine[at]) * theirs[at]
        unsure += np.float64(sizes[at]) * (
            2.0 * np.float64(size) + np.float64(mine[at] * mine[at] * sizes[at])
        )
    return within, unsure


@compiled(fastmath=_ANY_ORDER)
def _dot(row: np.ndarray, vector: np.ndarray) -> float:
    total = np.float32(0.0)
    for at in range(vector.size):
        total += row[at] * vector[at]
    return np.float64(total)


@compiled(fastmath=_ANY_ORDER)
def _dot_less(row: np.ndarray, about: np.ndarray, vector: np.ndarray) -> float:
    total = np.float32(0.0)
    for at in range(vector.size):
        total += (row[at] - about[at]) * vector[at]
    return np.float64(total)


@compiled(fastmath=_ANY_ORDER)
def _sum_and_squares(scores: np.ndarray) -> tuple[float, float]:
    total, squares = np.float32(0.0), np.float32(0.0)
    for at in range(scores.size):
        total += scores[at]
        squares += scores[at] * scores[at]
    return np.float64(total), np.float64(squares)


@compiled()
def _panels(
    held: np.ndarray, wide: int, depth: int, across: int, many: int, out: np.ndarray
) -> None:
    """Write rows as ``[panel][head_dim][across]``; past the last row, anything that is finite."""
    for base in range(0, many, across):
        panel = out[base * depth : (base + across) * depth]
        for lane in range(min(across, many - base)):
            row = held[(base + lane) * wide : (base + lane) * wide + depth]
            for at in range(depth):
                panel[at * across + lane] = row[at]


@compiled(
    types.void(
        *(_ENTRIES, given_as(_INT64, 1), _INT64, _ENTRIES, _INT64, _INT64),
        *(_FLOAT32[::1], _FLOAT32[::1], _FLOAT64),
        *(_FLOAT64[::1], _FLOAT64[:, ::1], _FLOAT64[::1], _FLOAT64[::1]),
    )
)
def causal(
    query: np.ndarray,
    rows: np.ndarray,
    size: int,
    key: np.ndarray,
    begin: int,
    known: int,
    query_pilot: np.ndarray,
    key_pilot: np.ndarray,
    rounding: float,
    mean: np.ndarray,
    products: np.ndarray,
    means: np.ndarray,
    sums: np.ndarray,
) -> None:
    """Sum over the scores of chunks of rows that each see one key more than the one before.

    Parameters
    ----------
    query : array, shape (queries, head_dim)
        As given.
    rows, size
        The rows, whole chunks of this size.
    key : array, shape (keys, head_dim)
        As given.
    begin
        The key that the first of the rows sees last.
    known
        How many keys the mean and the products are of, all before ``begin``.
    query_pilot, key_pilot : array, shape (head_dim,)
        What both are taken about.
    rounding
        Relative error of an entry of a scatter.
    mean, products : array, shapes (head_dim,) and (head_dim, head_dim)
        Mean of the known keys less the pilot, and their scatter; become those of all.
    means : array, shape (rows,)
        Receives the mean score of each row less the product of the pilots.
    sums : array, shape (2,)
        WITHIN and ERROR, added to.
    """
    depth = query.shape[1]
    wide = _wide(depth)
    width = -(-size // PANEL) * PANEL
    padded = -(-size // ROWS) * ROWS
    nothing = np.zeros(depth, dtype=np.float32)
    held = np.zeros(size * wide, dtype=np.float32)
    centred = np.zeros(size * wide, dtype=np.float32)
    squares = np.empty(wide * wide, dtype=np.float32)
    of_chunk = np.empty(wide, dtype=np.float32)
    queries = np.zeros(padded * depth, dtype=np.float32)
    keys = np.zeros(width * depth, dtype=np.float32)
    scores = np.empty(ROWS * width, dtype=np.float32)
    mean32, sizes = np.empty(depth, dtype=np.float32), np.empty(depth, dtype=np.float32)
    positions = np.arange(key.shape[0])
    for base in range(0, len(rows), size):
        # The keys that all these rows see.
        for at in range(depth):
            mean32[at] = np.float32(mean[at])
            sizes[at] = np.float32(products[at, at])
        _held(query, rows, base, size, nothing, held)
        _squared(held, size, wide, squares)
        within, unsure = _contracted(squares, products, sizes, wide)
        error = rounding * math.sqrt(unsure)
        # Those at the edge.
        _panels(held, wide, depth, ROWS, size, queries)
        _held(key, positions, begin + base, size, key_pilot, centred)
        _panels(centred, wide, depth, PANEL, size, keys)
        for group in range(0, size, ROWS):
            last = min(group + ROWS, size)
            for panel in range(0, last, PANEL):
                product(
                    *(queries, group * depth, ROWS, keys, panel * depth, PANEL),
                    *(scores, panel, depth, width),
                )
            for place in range(group, last):
                many = place + 1
                of_row = (place - group) * width
                total, raw = _sum_and_squares(scores[of_row : of_row + many])
                row = held[place * wide : place * wide + depth]
                of_edge, of_core = total / many, _dot(row, mean32)
                within += raw - total * of_edge
                error += rounding * raw
                # As merge_moments.
                share = many / (known + many)
                gap = (of_edge - of_core) if known else 0.0
                weight = known * share
                within += gap * gap * weight
                if known:
                    both = abs(of_core) + abs(of_edge)
                    error += rounding * both * both * weight
                merged = of_core + gap * share if known else of_edge
                about = _dot_less(row, query_pilot, key_pilot)
                means[base + place] = merged + about
        sums[WITHIN] += within
        sums[ERROR] += error
        # The keys at the edge are those that the next rows all see.
        _column_sums(centred, size, wide, of_chunk)
        after = known + size
        for at in range(depth):
            mean32[at] = of_chunk[at] / np.float32(size)
        for place in range(size):
            row = centred[place * wide : place * wide + depth]
            for at in range(depth):
                row[at] -= mean32[at]
        _squared(centred, size, wide, squares)
        _added(squares, wide, products)
        weight = math.sqrt(size * (known / after))
        for at in range(depth):
            gap = (np.float64(mean32[at]) - mean[at]) * weight
            for other in range(at, depth):
                products[at, other] += gap * ((np.float64(mean32[other]) - mean[other]) * weight)
        for at in range(depth):
            mean[at] += (np.float64(mean32[at]) - mean[at]) * (size / after)
        known = after
    _mirrored(products)
