"""Moments of the entries of query, key, value and input: one pass in float64, in chunks."""

from __future__ import annotations

import itertools

import numpy as np

from rootdk._lib.arrays import Array, Namespace, float_info, to_numpy
from rootdk.engines import compiled
from rootdk.engines.call import Call
from rootdk.engines.workers import float32_at_least, hired, in_reach
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

_SHARED = 2**20
"""Entries from which on threads are worth hiring."""

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
        moments = _nothing(int(array.shape[1]))
        for element in array:
            moments = _merged(moments, _moments(element, xp, worth))
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
    moments = _nothing(heads)
    step = max(_CHUNK // max(heads * width, 1), 1)
    for start in range(0, rows if heads * width else 0, step):
        chunk = xp.astype(array[:, start : start + step], xp.float64)
        mean = xp.mean(chunk, axis=(1, 2))
        chunk -= mean[:, None, None]
        # What rounding has left in the mean is taken out of the deviations again.
        left = xp.mean(chunk, axis=(1, 2))
        chunk *= chunk
        m2 = xp.sum(chunk, axis=(1, 2)) - left * left * (chunk.shape[1] * width)
        count = np.full(heads, chunk.shape[1] * width, dtype=np.int64)
        moments = _merged(moments, (count, to_numpy(mean + left), np.maximum(to_numpy(m2), 0.0)))
    return moments


def _compiled_moments(array: Array) -> _Moments:
    from rootdk.engines._numba import sums

    heads, rows, width = (int(size) for size in array.shape)
    shared = heads * rows * width >= _SHARED
    # One long row, as inputs come, is cut so that every thread has some.
    parts = 16 if heads == 1 and shared else 1
    ends = np.linspace(0, rows, parts + 1).astype(int).tolist()
    spans = [(head, *span) for span in itertools.pairwise(ends) for head in range(heads)]

    # Half types are widened span by span.
    narrow = float_info(array).bits == 16
    values = array if narrow else float32_at_least(array)

    def of_span(span: tuple[int, int, int]) -> tuple[float, float]:
        head, start, stop = span
        part = values[head, start:stop]
        return sums.moments(np.ravel(float32_at_least(part) if narrow else part))

    with hired(None if shared else 1) as workers:
        found = np.asarray(list(workers.map(of_span, spans))).reshape(parts, heads, 2)
    result = _nothing(heads)
    for (start, stop), part in zip(itertools.pairwise(ends), found, strict=True):
        count = np.full(heads, (stop - start) * width, dtype=np.int64)
        result = _merged(result, (count, part[:, 0], part[:, 1]))
    return result


def _merged(mine: _Moments, theirs: _Moments) -> _Moments:
    return merge_moments((mine[0], theirs[0]), (mine[1], theirs[1]), (mine[2], theirs[2]))


def _nothing(heads: int) -> _Moments:
    return np.zeros(heads, dtype=np.int64), np.zeros(heads), np.zeros(heads)
