"""Moments of the entries of query, key, value and input: one pass in float64, in chunks."""

from __future__ import annotations

import itertools
from functools import reduce
from typing import Any

import numpy as np

from rootdk._lib.arrays import Array, Namespace, float_info, to_numpy
from rootdk.engines import compiled
from rootdk.engines.call import Call
from rootdk.engines.kernels import kernels_of
from rootdk.engines.workers import Workers, float32_at_least, hired, in_reach
from rootdk.stats.block import Floats, Integers
from rootdk.stats.statistic import Statistic
from rootdk.stats.statistics._moments import EntryMoments, merge_moments
from rootdk.stats.statistics.input_entries import InputEntries
from rootdk.stats.statistics.key_entries import KeyEntries
from rootdk.stats.statistics.query_entries import QueryEntries
from rootdk.stats.statistics.value_entries import ValueEntries

_CHUNK = 2**18
"""Entries converted at once."""

WORTH = 2**26
"""Entries from which compiled code earns the time that loading it takes."""

WORTH_LOADED = 2**14
"""The same once it is there."""

_ENTRY = 0.5
"""Nanoseconds that an entry takes one thread, about."""

SOURCES: dict[str, tuple[type[EntryMoments], str]] = {
    "query_entries": (QueryEntries, "query"),
    "key_entries": (KeyEntries, "key"),
    "value_entries": (ValueEntries, "value"),
    "input_entries": (InputEntries, "inputs"),
}
"""Statistic and argument of the call, by the name of the statistic."""


def entry_states(call: Call, names: set[str]) -> tuple[dict[str, Statistic], dict[str, str]]:
    """Return the states of the named entry statistics, and why any is absent."""
    worth = WORTH_LOADED if compiled.is_loaded() else WORTH
    states: dict[str, Statistic] = {}
    absent: dict[str, str] = {}
    for name in sorted(names & set(SOURCES)):
        statistic, argument = SOURCES[name]
        array = getattr(call, argument)
        if array is None:
            absent[name] = f"{argument} was not given to measure"
        else:
            states[name] = _state(statistic, array, call, worth)
    return states, absent


def _state(statistic: type[EntryMoments], array: Array, call: Call, worth: int) -> EntryMoments:
    xp = call.xp
    if statistic is InputEntries:
        moments = _moments(array.reshape((1, int(np.prod(array.shape)), 1)), xp, worth)
        repeats = call.num_heads
    else:
        found = [_moments(element, xp, worth) for element in array]
        moments = reduce(_merged, found) if found else _nothing(int(array.shape[1]))
        repeats = call.num_heads // max(int(array.shape[1]), 1)
    count, mean, m2 = moments
    return statistic(
        count=np.repeat(count, repeats), mean=np.repeat(mean, repeats), m2=np.repeat(m2, repeats)
    )


_Moments = tuple[Integers, Floats, Floats]


def _moments(array: Array, xp: Namespace, worth: int) -> _Moments:
    """Return the moments of each head of an array of shape (num_heads, rows, width)."""
    heads, rows, width = (int(size) for size in array.shape)
    if heads * rows * width >= worth and in_reach(array):
        return _compiled_moments(array)
    moments, kernels = _nothing(heads), kernels_of(array)
    step = min(max(_CHUNK // max(heads * width, 1), 1), max(rows, 1))
    like = xp.zeros((1,), dtype=xp.float64, device=array.device)
    buffer, sums = kernels.empty((heads, step, width), like), kernels.empty((2, heads), like)
    for start in range(0, rows if heads * width else 0, step):
        chunk = buffer[:, : min(step, rows - start)]
        chunk[...] = array[:, start : start + step]
        count = int(chunk.shape[1]) * width
        # About a mean of few entries, and of all where those were not like the others, so that
        # what is taken off the squares is no more than half of them.
        mean, left = np.zeros(heads), xp.mean(chunk[:, 0], axis=1)
        for _ in range(2):
            mean += to_numpy(left)
            chunk -= left[:, None, None]
            entries = chunk.reshape((heads, count))
            kernels.sums(entries, sums[0])
            kernels.squares(entries, buffer, sums[1])
            left = sums[0] / count
            total, squares = to_numpy(sums)
            if not np.any(total * total > 0.5 * count * squares):
                break
        m2 = np.maximum(squares - total * total / count, 0.0)
        moments = _merged(
            moments, (np.full(heads, count, dtype=np.int64), mean + total / count, m2)
        )
    return moments


def _compiled_moments(array: Array) -> _Moments:
    from rootdk.engines._numba import sums

    heads, rows, width = (int(size) for size in array.shape)
    with hired(_ENTRY * heads * rows * width) as workers:
        whole = None if heads < workers.threads else _in_rows(array)
        if whole is None:
            return _by_span(array, workers)
        found = np.empty((heads, 2))

        def sum_up(share: tuple[int, int]) -> None:
            sums.moments(whole, *share, found)

        list(workers.map(sum_up, workers.shares(heads)))
    return np.full(heads, rows * width, dtype=np.int64), found[:, 0], found[:, 1]


def _in_rows(array: Array) -> Any:
    """Return an array of (num_heads, rows, width) as (rows, num_heads, width), contiguous.

    All entries of a head may be one row. None if that would take a copy.
    """
    if float_info(array).bits == 16:
        return None
    values = float32_at_least(array)
    if values.flags.c_contiguous:
        return values.reshape(1, values.shape[0], -1)
    turned = values.transpose(1, 0, 2)
    return turned if turned.flags.c_contiguous else None


def _by_span(array: Array, workers: Workers) -> _Moments:
    """Return the moments of an array that has to be copied, or cut, a span of rows at a time."""
    from rootdk.engines._numba import sums

    heads, rows, width = (int(size) for size in array.shape)
    # One long row, as inputs come, is cut so that every thread has some.
    parts = 1 if heads >= workers.threads else 16
    ends = np.linspace(0, rows, parts + 1).astype(int).tolist()
    spans = [(head, *span) for span in itertools.pairwise(ends) for head in range(heads)]
    values = array if float_info(array).bits == 16 else float32_at_least(array)

    def of_span(span: tuple[int, int, int]) -> Floats:
        head, start, stop = span
        found = np.empty((1, 2))
        sums.moments(float32_at_least(values[head, start:stop]).reshape(1, 1, -1), 0, 1, found)
        return found

    found = np.concatenate(list(workers.map(of_span, spans))).reshape(parts, heads, 2)
    lots = zip(itertools.pairwise(ends), found, strict=True)
    return reduce(
        _merged,
        (
            (np.full(heads, (stop - start) * width, dtype=np.int64), part[:, 0], part[:, 1])
            for (start, stop), part in lots
        ),
    )


def _merged(mine: _Moments, theirs: _Moments) -> _Moments:
    return merge_moments((mine[0], theirs[0]), (mine[1], theirs[1]), (mine[2], theirs[2]))


def _nothing(heads: int) -> _Moments:
    return np.zeros(heads, dtype=np.int64), np.zeros(heads), np.zeros(heads)
