"""The compiled engine's work on one head, whose keys are laid out: measure its rows.

Rows are taken ROWS at a time over all the keys that any of them sees, so that every pass
over a row finds its scores in the cache, and the mean is known before deviations are summed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from rootdk.engines._numba import passes
from rootdk.engines._numba.passes import HIDDEN, SEGMENT
from rootdk.engines._numba.vectors import (
    PANEL,
    ROWS,
    as_contiguous,
    bits_of,
    compiled,
    given_as,
    product,
)
from rootdk.stats.block import HISTOGRAM_BINS, HISTOGRAM_REACH

NUMBERS = (
    "score_mean score_m2 score_min score_max held_peak offset peak others"
    " weighted_gaps other_squares other_cubes first"
).split()
"""What is written of each row, in this order."""

_MEAN, _M2, _LEAST, _GREATEST, _HELD, _OFFSET, _PEAK, _OTHERS, _GAPS, _SQUARES, _CUBES, _FIRST = (
    range(12)
)

IN_CACHE = 2**17
"""Scores held at a time, unless ROWS rows have more."""

MOST_TOGETHER = 4
"""Times ROWS rows that are made from one reading of the keys."""

DEVIATIONS, HISTOGRAM, SOFTMAX = 1, 2, 4
"""What can be asked for beside means and extremes."""

_PER_UNIT = HISTOGRAM_BINS / (2.0 * HISTOGRAM_REACH)
_LOWEST = -(2.0**125)


@compiled()
def rows_together(keys: int) -> int:
    """Return how many rows have their scores in the cache together."""
    of_rows = ROWS * -(-keys // PANEL) * PANEL
    return ROWS * min(max(IN_CACHE // max(of_rows, 1), 1), MOST_TOGETHER)


_FLOAT32, _FLOAT64, _INT64 = types.float32, types.float64, types.int64


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@compiled()
def _mixed(bits: Any) -> Any:
    """Spread every bit over all others, as ``rootdk.engines.priority`` does."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@compiled()
def _sum_of_mixed(entries: np.ndarray) -> Any:
    total = np.uint64(0)
    for at in range(entries.size):
        bits = bits_of(np.float64(entries[at]) + 0.0)
        total += _mixed(bits ^ (np.uint64(at + 1) * _GOLDEN))
    return total


@compiled()
def _priority(query: np.ndarray, visible: int) -> int:
    """Return a row's pseudo-random number, as ``rootdk.engines.priority`` does."""
    if query.strides[0] == query.itemsize:
        total = _sum_of_mixed(as_contiguous(query))
    else:
        total = _sum_of_mixed(query)
    total += np.uint64(visible) * _GOLDEN
    return int(min(np.int64(_mixed(total) >> np.uint64(1)), np.int64(2**63 - 2)))


@compiled()
def _gathered(
    query: np.ndarray,
    rows: np.ndarray,
    start: int,
    many: int,
    scale: float,
    centre: np.ndarray,
    entries: np.ndarray,
    offsets: np.ndarray,
    norms: np.ndarray,
) -> None:
    """Write scaled queries as ``[group][head_dim][ROWS]``.

    And what centring took from the scores of each, and its norm.
    """
    depth = query.shape[1]
    for place in range(-(-many // ROWS) * ROWS):
        offset = squares = 0.0
        base = place // ROWS * ROWS * depth + place % ROWS
        for at in range(depth):
            entry = np.float64(query[rows[start + place], at]) if place < many else 0.0
            entries[base + at * ROWS] = np.float32(entry * scale)
            offset += entry * centre[at]
            squares += entry * entry
        offsets[place] = scale * offset
        norms[place] = abs(scale) * math.sqrt(squares)


@compiled()
def _selected(
    scores: np.ndarray,
    start: int,
    many: int,
    shown: np.ndarray,
    bias: np.ndarray,
    extra: np.ndarray,
) -> tuple[int, float, bool]:
    """Move visible scores together; return how many, the largest bias, whether all are finite.

    A bias of −∞ hides. ``extra`` receives the bias of each, less the largest, so that a row
    filled with −1e9 throughout keeps the digits of its scores.
    """
    highest, fit = -np.inf, True
    for at in range(bias.shape[0]):
        if shown.shape[0] == 0 or shown[at]:
            fit = fit and bias[at] < np.inf
            highest = max(highest, np.float64(bias[at]))
    kept = 0
    for at in range(many):
        seen = shown.shape[0] == 0 or shown[at]
        if bias.shape[0]:
            seen = seen and bias[at] > -np.inf
            extra[kept] = np.float32(max(np.float64(bias[at]) - highest, _LOWEST))
        scores[start + kept] = scores[start + at]
        kept += 1 if seen else 0
    return kept, (highest if kept and bias.shape[0] else 0.0), fit


@compiled()
def _moments(scores: np.ndarray, start: int, stop: int, offset: float, out: np.ndarray) -> int:
    """Write mean and extremes of a row; return where the segment with the largest begins."""
    total, least, greatest, where = 0.0, np.inf, -np.inf, start
    for low in range(start, stop, SEGMENT):
        part = passes.range_of(scores[low : min(low + SEGMENT, stop)])
        total += np.float64(part[0])
        least = min(least, np.float64(part[1]))
        if part[2] > greatest:
            greatest, where = np.float64(part[2]), low
    many = stop - start
    out[_MEAN] = total / many + offset
    out[_LEAST], out[_GREATEST] = least + offset, greatest + offset
    out[_HELD], out[_PEAK] = greatest, greatest + offset
    return where


@compiled()
def _shape(
    scores: np.ndarray,
    start: int,
    stop: int,
    held_mean: float,
    flat: float,
    wanted: int,
    out: np.ndarray,
    codes: np.ndarray,
    table: np.ndarray,
) -> None:
    """Write the squared deviations of a row, and count its standardised scores."""
    m2, mean = 0.0, np.float32(held_mean)
    for low in range(start, stop, SEGMENT):
        m2 += np.float64(passes.squared_deviations(scores[low : min(low + SEGMENT, stop)], mean))
    out[_M2] = m2
    deviation = math.sqrt(m2 / (stop - start))
    if not wanted & HISTOGRAM or not deviation > flat:
        return
    per_unit = np.float32(_PER_UNIT / deviation)
    pairs = codes.view(np.uint16)
    for low in range(start, stop, SEGMENT):
        high = min(low + SEGMENT, stop)
        passes.encode(scores[low:high], mean, per_unit, codes)
        passes.count_pairs(pairs, (high - low) // 2, table)
        if (high - low) % 2:
            table[-HISTOGRAM_BINS + codes[high - low - 1]] += 1


@compiled()
def _softmax(
    scores: np.ndarray, start: int, stop: int, where: int, first: bool, out: np.ndarray
) -> None:
    """Write the sums over a row's exponentials, with one largest left out."""
    peak = np.float32(out[_HELD])
    if first:
        out[_FIRST] = np.float64(passes.exponential(scores[start] - peak))
    where += passes.place_of(scores[where : min(where + SEGMENT, stop)], peak)
    scores[min(where, stop - 1)] = HIDDEN
    for low in range(start, stop, SEGMENT):
        part = passes.exponential_sums(scores[low : min(low + SEGMENT, stop)], peak)
        out[_OTHERS] += np.float64(part[0])
        out[_GAPS] += np.float64(part[1])
        out[_SQUARES] += np.float64(part[2])
        out[_CUBES] += np.float64(part[3])


@compiled()
def _peak(scores: np.ndarray, start: int, stop: int, offset: float, out: np.ndarray) -> int:
    """Write the largest final score; return where its segment begins."""
    greatest, where = -np.inf, start
    for low in range(start, stop, SEGMENT):
        part = passes.range_of(scores[low : min(low + SEGMENT, stop)])
        if part[2] > greatest:
            greatest, where = np.float64(part[2]), low
    out[_HELD], out[_PEAK] = greatest, greatest + offset
    return where


@compiled()
def _untangled(table: np.ndarray, bins: np.ndarray) -> None:
    """Add a table of pairs of codes to the bins."""
    for high in range(HISTOGRAM_BINS):
        pairs = table[high * 256 : high * 256 + HISTOGRAM_BINS]
        for low in range(HISTOGRAM_BINS):
            bins[low] += pairs[low]
        bins[high] += np.sum(pairs)
    # The end of the table, where no pair falls, counts codes left over.
    for code in range(HISTOGRAM_BINS):
        bins[code] += table[table.size - HISTOGRAM_BINS + code]


def _signature(bias: Any) -> Any:
    reach = given_as(_INT64, 1)
    return types.boolean(
        *(given_as(_FLOAT32, 2), reach, _INT64, _INT64, _FLOAT64, _FLOAT64[::1], _FLOAT32[::1]),
        *(_INT64, reach, reach, given_as(types.boolean, 2), given_as(bias, 2)),
        *(_INT64, types.boolean, _FLOAT64, _FLOAT64),
        *(_INT64, _FLOAT64[:, :], _INT64[:, :], _INT64[::1]),
    )


@compiled([_signature(_FLOAT32), _signature(_FLOAT64)])
def measure_rows(
    query: np.ndarray,
    rows: np.ndarray,
    start: int,
    stop: int,
    scale: float,
    centre: np.ndarray,
    laid: np.ndarray,
    keys: int,
    first: np.ndarray,
    past: np.ndarray,
    mask: np.ndarray,
    bias: np.ndarray,
    bias_from: int,
    starts_at_first_key: bool,
    softcap: float,
    error: float,
    wanted: int,
    out: np.ndarray,
    counts: np.ndarray,
    bins: np.ndarray,
) -> bool:
    """Measure some of the rows of one head; return whether every bias was finite or −∞.

    Parameters
    ----------
    query : array, shape (queries, head_dim)
        As given.
    rows, start, stop
        The rows to measure, and which of them now.
    scale, centre, laid, keys
        The multiplier, the mean of the keys, the keys as ``panels.lay_out`` writes them, how many.
    first, past : array, shape (rows,)
        The keys within reach of each row.
    mask, bias : array, shape (queries, keys) or (0, 0)
        Empty if there is none.
    bias_from
        The row that the bias begins at.
    starts_at_first_key
        Whether the first of the keys is key 0 of the call.
    softcap : float
        0 if there is none.
    error : float
        A row whose standard deviation is at most this, times the norm of its scaled query, is flat.
    wanted : int
        A sum of DEVIATIONS, HISTOGRAM and SOFTMAX.
    out, counts, bins : array, shapes (rows, 12), (rows, 2) and (HISTOGRAM_BINS,)
        Receive NUMBERS; visible keys and priority; and add to the histogram.
    """
    depth, width = query.shape[1], -(-keys // PANEL) * PANEL
    # Keys are read once for several times ROWS, as long as the scores stay in the cache.
    step = rows_together(keys)
    table = np.zeros(256 * HISTOGRAM_BINS, dtype=np.int32)
    codes = np.zeros(SEGMENT, dtype=np.uint8)
    entries = np.empty(depth * step, dtype=np.float32)
    offsets, norms = np.empty(step), np.empty(step)
    scores = np.empty(step * width, dtype=np.float32)
    extra = np.empty(keys if bias.size else 0, dtype=np.float32)
    numbers = np.empty(out.shape[1])
    fit = True
    for group in range(start, stop, step):
        many = min(step, stop - group)
        _gathered(query, rows, group, many, scale, centre, entries, offsets, norms)
        low, high = np.min(first[group : group + many]), np.max(past[group : group + many])
        base = low // PANEL * PANEL
        for panel in range(base // PANEL, -(-high // PANEL)):
            for place in range(0, many, ROWS):
                product(
                    *(entries, place * depth, ROWS, laid, panel * depth * PANEL, PANEL),
                    *(scores, place * width + panel * PANEL - base, depth, width),
                )
        for place in range(many):
            at = group + place
            row, offset = rows[at], offsets[place]
            begin = place * width + first[at] - base
            seen, lift = max(past[at] - first[at], 0), 0.0
            starts = starts_at_first_key and first[at] == 0 and seen > 0
            if mask.size or bias.size:
                reach = slice(first[at], first[at] + seen)
                shown = mask[row, reach] if mask.size else mask[0:0, 0]
                added = bias[row - bias_from, reach] if bias.size else bias[0:0, 0]
                starts = starts and (not mask.size or shown[0])
                starts = starts and (not bias.size or added[0] > -np.inf)
                seen, lift, sound = _selected(scores, begin, seen, shown, added, extra)
                fit = fit and sound
            counts[at, 0] = seen
            counts[at, 1] = _priority(query[row], seen)
            numbers[:] = 0.0
            if seen == 0:
                numbers[_LEAST], numbers[_GREATEST] = np.inf, -np.inf
            else:
                end = begin + seen
                where = _moments(scores, begin, end, offset, numbers)
                numbers[_OFFSET] = offset
                if wanted & (DEVIATIONS | HISTOGRAM):
                    mean = numbers[_MEAN] - offset
                    flat = error * norms[place]
                    _shape(scores, begin, end, mean, flat, wanted, numbers, codes, table)
                if wanted & SOFTMAX and (softcap > 0.0 or bias.size):
                    # The cap is of the whole score, and takes the offset in.
                    final = scores[begin:end]
                    passes.finalise(final, np.float32(softcap), np.float32(offset), extra)
                    lift += 0.0 if softcap > 0.0 else offset
                    where = _peak(scores, begin, end, lift, numbers)
                if wanted & SOFTMAX:
                    _softmax(scores, begin, end, where, starts, numbers)
            out[at] = numbers
    _untangled(table, bins)
    return fit
