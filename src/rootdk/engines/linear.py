"""The linear engine: mean and spread of the scores without forming any.

For the keys that a row sees, with mean k̄ and scatter C = Σ(k − k̄)(k − k̄)ᵀ, its scores have
mean c·q·k̄ and squared deviations c²·qᵀCq. So the spread takes O(queries · head_dim²) and
O(keys · head_dim²), in float64. Under causal order or a window, what the rows of a chunk
all see is kept as one (k̄, C) that grows chunk by chunk, and only the keys at its ragged
edges, less than two chunks of them, are scored one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rootdk._lib.arrays import Array, Namespace, float_info, is_torch
from rootdk.engines.call import Call
from rootdk.engines.entries import SOURCES
from rootdk.engines.fill import Filled
from rootdk.engines.kernels import Kernels, NumpyKernels, TorchKernels, host
from rootdk.engines.workers import float32_at_least, hired, in_reach
from rootdk.stats.block import Floats, Integers
from rootdk.stats.statistic import Statistic
from rootdk.stats.statistics._moments import merge_moments, moments_of_groups
from rootdk.stats.statistics.counts import Counts
from rootdk.stats.statistics.score_moments import ScoreMoments
from rootdk.stats.statistics.within_rows import WithinRows

WORTH = 2**19
"""Entries from which compiled code earns the time that loading it takes."""

CHUNK = 256
"""Rows, and keys, taken together."""

MEASURED = ("counts", "score_moments", "within_rows")
"""The statistics that need no score."""


def refusal(call: Call, names: set[str]) -> str | None:
    """Return why the engine cannot measure this; None if it can."""
    others = sorted(names - set(MEASURED) - set(SOURCES))
    if others:
        return f"{', '.join(others)} cannot be had without forming scores"
    if call.mask is not None or call.bias is not None:
        return "a mask or a bias hides scores in no order that sums could follow"
    if not (_all_finite(call.query, call.xp) and _all_finite(call.key, call.xp)):
        return "an entry is not finite"
    return None


def run(call: Call, names: set[str]) -> Filled:
    """Measure the named statistics of a call."""
    first, past = call.reach(call.rows)
    states: dict[str, Statistic] = {"counts": _counts(past - first, call)}
    if names & {"score_moments", "within_rows"}:
        means, m2s = _rows(call)
        seen = np.broadcast_to(np.tile(past - first, call.batch), means.shape)
        count, mean, m2 = moments_of_groups(seen, means, m2s)
        if "score_moments" in names:
            states["score_moments"] = ScoreMoments(count=count, mean=mean, m2=m2)
        if "within_rows" in names:
            states["within_rows"] = WithinRows(count=count, m2=np.sum(m2s, axis=1))
    return Filled(states=states, engine=f"linear ({call.library}, float64)")


def _counts(seen: Integers, call: Call) -> Counts:
    of_call = {
        "rows": len(seen),
        "visible_scores": int(np.sum(seen)),
        "empty_rows": int(np.sum(seen == 0)),
        "single_key_rows": int(np.sum(seen == 1)),
    }
    return Counts(
        **{
            field: np.full(call.num_heads, number * call.batch, dtype=np.int64)
            for field, number in of_call.items()
        }
    )


def _rows(call: Call) -> tuple[Floats, Floats]:
    """Return mean and squared deviations of each row's scores, each (num_heads, batch · rows)."""
    shape = (call.batch, call.num_heads, len(call.rows))
    means, m2s = np.zeros(shape), np.zeros(shape)
    first, past = call.reach(call.rows)
    if _is_for_compiled_code(call, first):
        _run_compiled(call, past, means, m2s)
        return _by_head(means), _by_head(m2s)
    group = call.queries_per_kv_head
    for element in range(call.batch):
        for kv_head in range(int(call.key.shape[1])):
            heads = slice(kv_head * group, (kv_head + 1) * group)
            keys = _Keys(call.xp, call.key[element, kv_head])
            for rows in _chunks(len(call.rows)):
                query = _select(call, call.query[element, heads], call.rows[rows])
                mean, m2 = _of_chunk(query, keys, first[rows], past[rows])
                means[element, heads, rows] = call.scale * mean
                m2s[element, heads, rows] = call.scale**2 * m2
    return _by_head(means), _by_head(m2s)


def _by_head(of_batch: Floats) -> Floats:
    """Return (batch, num_heads, rows) numbers as (num_heads, batch · rows)."""
    return np.moveaxis(of_batch, 0, 1).reshape(of_batch.shape[1], -1)


def _is_for_compiled_code(call: Call, first: Integers) -> bool:
    """Tell whether all rows see keys from the first on, enough of them, in main memory."""
    entries = call.batch * call.num_heads * (len(call.rows) + call.keys) * call.head_dim
    same = float_info(call.query).bits <= 16 or float_info(call.query) == float_info(call.key)
    return entries >= WORTH and same and not np.any(first) and in_reach(call.query)


def _run_compiled(call: Call, past: Integers, means: Floats, m2s: Floats) -> None:
    from rootdk.engines._numba import sums

    def of_head(at: tuple[int, int]) -> None:
        element, head = at
        query = float32_at_least(call.query[element, head])
        key = float32_at_least(call.key[element, head // call.queries_per_kv_head])
        sums.rows_that_begin_together(query, call.rows, past, key, means[at], m2s[at])
        means[at] *= call.scale
        m2s[at] *= call.scale**2

    with hired() as workers:
        list(workers.map(of_head, np.ndindex(call.batch, call.num_heads)))


def _of_chunk(query: Array, keys: _Keys, first: Integers, past: Integers) -> tuple[Floats, Floats]:
    """Return mean and squared deviations of the unscaled scores, each (heads, rows)."""
    lowest, highest = int(first[0]), int(past[-1])
    core = (int(first[-1]), int(past[0]))
    if core[0] >= core[1]:
        return _of_edge(query, keys, (lowest, highest), first, past)[1:]
    count, mean, m2 = _of_core(query, keys, core)
    for edge in ((lowest, core[0]), (core[1], highest)):
        if edge[0] < edge[1]:
            parts = _of_edge(query, keys, edge, first, past)
            count, mean, m2 = merge_moments((count, parts[0]), (mean, parts[1]), (m2, parts[2]))
    return mean, m2


def _of_core(query: Array, keys: _Keys, core: tuple[int, int]) -> tuple[Integers, Floats, Floats]:
    """Return count, mean and deviations over keys that all the rows see."""
    xp = keys.xp
    centre, scatter = keys.between(*core)
    mean = host(xp.matmul(query, centre))
    m2 = host(xp.sum(xp.matmul(query, scatter) * query, axis=-1))
    return np.full(mean.shape, core[1] - core[0], dtype=np.int64), mean, np.maximum(m2, 0.0)


def _of_edge(
    query: Array, keys: _Keys, edge: tuple[int, int], first: Integers, past: Integers
) -> tuple[Integers, Floats, Floats]:
    """Return count, mean and deviations over keys of which each row sees its own part."""
    key = keys.float64(*edge)
    scores = host(keys.xp.matmul(query, keys.xp.matrix_transpose(key)))
    position = np.arange(*edge)
    seen = (position >= first[:, None]) & (position < past[:, None])
    count = np.broadcast_to(np.sum(seen, axis=-1), scores.shape[:-1])
    mean = np.sum(np.where(seen, scores, 0.0), axis=-1) / np.maximum(count, 1)
    deviations = np.where(seen, scores - mean[..., None], 0.0)
    return count, mean, np.sum(deviations**2, axis=-1)


@dataclass
class _State:
    count: int
    mean: Array
    scatter: Array


class _Keys:
    """The keys of one head, and the mean and scatter of any range of them.

    Ranges are asked for with both ends ascending. While the first end stays, a range grows
    from the last one; when it moves, the range is put together anew from the states of
    whole chunks, because taking keys out of a sum again would leave their rounding in it.
    """

    def __init__(self, xp: Namespace, key: Array) -> None:
        self.xp = xp
        self._key = key
        self._chunks: dict[int, _State] = {}
        self._range = (0, 0)
        self._state: _State | None = None

    def float64(self, start: int, stop: int) -> Array:
        """Return keys of a range in float64."""
        return self.xp.astype(self._key[start:stop], self.xp.float64)

    def between(self, start: int, stop: int) -> tuple[Array, Array]:
        """Return mean (head_dim,) and scatter (head_dim, head_dim) of a range of keys."""
        if self._state is None or self._range[0] != start or self._range[1] > stop:
            self._state, self._range = None, (start, start)
            self._chunks = {at: state for at, state in self._chunks.items() if at >= start}
        for low, high in _pieces(self._range[1], stop):
            self._state = self._merged(self._state, self._piece(low, high))
        self._range = (start, stop)
        assert self._state is not None
        return self._state.mean, self._state.scatter

    def _piece(self, start: int, stop: int) -> _State:
        whole = stop - start == CHUNK
        if whole and start in self._chunks:
            return self._chunks[start]
        key = self.float64(start, stop)
        mean = self.xp.mean(key, axis=0)
        centred = key - mean
        state = _State(
            stop - start, mean, self.xp.matmul(self.xp.matrix_transpose(centred), centred)
        )
        if whole:
            self._chunks[start] = state
        return state

    def _merged(self, mine: _State | None, other: _State) -> _State:
        if mine is None:
            return other
        # As merge_moments, with the outer product of the gap in place of its square.
        count = mine.count + other.count
        share, gap = other.count / count, other.mean - mine.mean
        outer = gap[:, None] * gap[None, :]
        return _State(
            count,
            mine.mean + gap * share,
            mine.scatter + other.scatter + outer * (mine.count * share),
        )


def _pieces(start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield a range in pieces that end at multiples of CHUNK, the last maybe before."""
    while start < stop:
        end = min((start // CHUNK + 1) * CHUNK, stop)
        yield start, end
        start = end


def _chunks(rows: int) -> Iterator[slice]:
    for start in range(0, rows, CHUNK):
        yield slice(start, min(start + CHUNK, rows))


def _select(call: Call, query: Array, rows: Integers) -> Array:
    kernels: Kernels = TorchKernels() if is_torch(query) else NumpyKernels()
    return call.xp.astype(kernels.select(query, rows, 1), call.xp.float64)


def _all_finite(array: Array, xp: Any) -> bool:
    if 0 in array.shape:
        return True
    if int(np.prod(array.shape)) >= WORTH and in_reach(array):
        from rootdk.engines._numba import sums

        with hired() as workers:
            of_heads = np.ndindex(array.shape[:2])
            return all(
                workers.map(lambda at: sums.are_finite(float32_at_least(array[at])), of_heads)
            )
    # Extremes are quicker than isfinite, and NaN passes through them.
    return all(np.isfinite(float(end)) for end in (xp.min(array), xp.max(array)))
