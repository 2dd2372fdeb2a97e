"""Mean and spread of scores whose rows see different intervals of keys, without forming most.

Rows are taken a few at a time. The keys that all of them see, in whole chunks, are known by
their sum and the sum of their outer products about a pilot; the keys at the ragged edges are
scored. In causal order the edges of all chunks look alike, and many are taken at once.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from rootdk._lib.arrays import Array
from rootdk.engines import compiledsums
from rootdk.engines.hostarrays import host
from rootdk.engines.kernels import Kernels
from rootdk.engines.keywindow import KeyWindow, State, Work
from rootdk.engines.scatter import ROUNDING, check_finite, is_exact_enough
from rootdk.stats.block import Floats, Integers

CHUNK = 128
"""Rows, and keys, taken together."""

AT_ONCE = 2**19
"""Scores at the edges formed at once, of all heads, in causal order."""


def ragged(
    query: Array,
    key: Array,
    rows: Integers,
    reach: tuple[Integers, Integers],
    arithmetic: str,
    kernels: Kernels,
    compiled: set[bool],
) -> tuple[Floats, Floats, Floats] | None:
    """Return mean, squared deviations, and those within rows, of unscaled scores.

    Parameters
    ----------
    query, key : array, shapes (batch, heads, queries, head_dim), (batch, kv_heads, keys, head_dim)
        Heads that share a key-value head stand together.
    rows : array of int64
        The query rows to measure.
    reach : tuple of array of int64
        The first key that each sees, and the one past the last; both ascend.
    arithmetic : str
        The dtype of the products.
    kernels
        The library of the arrays.
    compiled : set of bool
        Whether compiled code took rows is added.

    Returns
    -------
    tuple of array, shape (batch, heads), or None
        None if float32 is not exact enough.

    Raises
    ------
    UnfitError
        If an entry, or in this arithmetic a product, is not finite.
    """
    work, (first, past) = Work(query, key, arithmetic, kernels), reach
    sums = _Sums(work, rows, first, past)
    start = 0
    while start < len(rows):
        alike = sums.alike(start)
        if alike > 1:
            sums.add_causal(start, alike)
            compiled.add(sums.compiled)
            start += alike * CHUNK
        else:
            stop = start + sums.near(start)
            sums.add(slice(start, stop))
            compiled.add(False)
            start = stop
    check_finite(sums.means, sums.within)
    within = np.maximum(sums.within, 0.0)
    between, mean = _of_rows(past - first, sums.means)
    m2 = within + between
    if arithmetic == "float32" and not (
        is_exact_enough(sums.error, within) and is_exact_enough(sums.error, m2)
    ):
        return None
    return mean + work.product_of_pilots, m2, within


def _of_rows(many: Integers, means: Floats) -> tuple[Floats, Floats]:
    """Return what the means of rows add to the squared deviations, and their mean."""
    share = many / np.sum(many)
    rough = np.sum(means * share, axis=-1)
    left = means - rough[..., None]
    rest = np.sum(left * share, axis=-1)
    return np.sum(many * (left - rest[..., None]) ** 2, axis=-1), rough + rest


@dataclass(frozen=True, eq=False)
class _Rows:
    """Scores of rows over some keys, about the pilot, (batch, heads, …, rows).

    Attributes
    ----------
    count : array
        How many, by row.
    mean : array
        Their mean.
    within : array, shape (batch, heads)
        Their squared deviations from it, of all rows.
    error : array, shape (batch, heads)
        By how much rounding in float32 may have changed those.
    """

    count: Integers
    mean: Floats
    within: Floats
    error: Floats

    def merge(self, other: _Rows) -> _Rows:
        """Return the rows over the keys of both."""
        count = self.count + other.count
        share = other.count / np.maximum(count, 1)
        gap = other.mean - self.mean
        moved = np.sum(gap * gap * self.count * share, axis=-1)
        sizes = np.abs(self.mean) + np.abs(other.mean)
        unsure = np.sum(sizes * sizes * self.count * share, axis=-1)
        return _Rows(
            count,
            self.mean + gap * share,
            self.within + other.within + moved,
            self.error + other.error + ROUNDING * unsure,
        )


class _Sums:
    """Means of rows, and squared deviations within them, as rows come in."""

    def __init__(self, work: Work, rows: Integers, first: Integers, past: Integers) -> None:
        self._work = work
        self._rows, self._first, self._past = rows, first, past
        # Chunks of keys begin where those of rows in causal order end.
        self._origin = int(past[0] - 1) % CHUNK
        slides = bool(first[-1] > first[0])
        self._window = KeyWindow(work, chunk=CHUNK, origin=self._origin, slides=slides)
        self.compiled = work.arithmetic == "float32" and compiledsums.takes(work.query, work.key)
        steps = np.stack([np.diff(rows), np.diff(past), 1 - np.diff(first)])
        self._breaks = np.flatnonzero(np.any(steps != 1, axis=0))
        batch, kv_heads, group, _ = work.sizes
        self.means = np.empty((batch, kv_heads * group, len(rows)))
        self.within = np.zeros((batch, kv_heads * group))
        self.error = np.zeros((batch, kv_heads * group))

    def near(self, start: int) -> int:
        """Return how many rows see nearly the same keys, or few enough to score all."""
        some = slice(start, start + CHUNK)
        first, past = self._first[some] - self._first[start], self._past[some]
        near = (first <= CHUNK) & (past <= self._past[start] + CHUNK)
        near |= past <= self._first[start] + 2 * CHUNK
        # Both ends ascend, so that the rows that are near come first.
        return int(np.argmin(near)) if not np.all(near) else len(near)

    def alike(self, start: int) -> int:
        """Return how many chunks of rows follow in causal order, to be taken at once."""
        if self._first[-1] or (self._past[start] - 1 - self._origin) % CHUNK:
            return 0
        place = np.searchsorted(self._breaks, start)
        stop = self._breaks[place] + 1 if place < len(self._breaks) else len(self._rows)
        batch, kv_heads, group, _ = self._work.sizes
        many = (stop - start) // CHUNK
        if self.compiled:
            return int(many)
        return int(min(many, AT_ONCE // (batch * kv_heads * group * CHUNK**2)))

    def add(self, some: slice) -> None:
        """Add rows, the core and the edges of what they see."""
        work, first, past = self._work, self._first[some], self._past[some]
        query, about_pilot = work.queries(self._rows[some])
        core = self._window.between(int(first[-1]), int(past[0]))
        edges = [(int(first[0]), core[0]), (core[1], int(past[-1]))]
        if core[0] >= core[1]:
            edges = [(int(first[0]), int(past[-1]))]
        parts = []
        if self._window.state is not None:
            state = self._window.state
            parts.append(_of_core(work, query, np.asarray(state.count), state.mean, state.scatter))
        for start, stop in edges:
            if start < stop:
                ends = first - start, past - start
                parts.append(_of_edge(work, query, work.keys(start, stop)[:, :, None], *ends))
        self._take(some, functools.reduce(_Rows.merge, parts), about_pilot)

    def add_causal(self, start: int, chunks: int) -> None:
        """Add chunks of rows that each see one key more than the one before, from key 0 on."""
        work = self._work
        batch, kv_heads, group, depth = work.sizes
        some = slice(start, start + chunks * CHUNK)
        begin = int(self._past[start]) - 1
        self._window.between(0, begin)
        if self.compiled:
            self._add_compiled(some, begin)
            return
        query, about_pilot = work.queries(self._rows[some])
        query = query.reshape((batch, kv_heads, group, chunks, CHUNK, depth))
        key = work.keys(begin, begin + chunks * CHUNK)
        key = key.reshape((batch, kv_heads, chunks, CHUNK, depth))
        found = _of_core(work, query, *self._each_before(key))
        position = np.arange(CHUNK)
        edge = _of_edge(work, query, key[:, :, None], np.zeros_like(position), position + 1)
        self._take(some, found.merge(edge), about_pilot)

    def _add_compiled(self, some: slice, begin: int) -> None:
        """The same, in one pass."""
        work, so_far = self._work, self._window.state
        batch, kv_heads, _, depth = work.sizes
        known = 0, np.zeros((batch, kv_heads, depth)), np.zeros((batch, kv_heads, depth, depth))
        if so_far is not None:
            known = so_far.count, host(so_far.mean)[:, :, 0], host(so_far.scatter)
        rows = self._rows[some]
        pilots = work.query_pilot, work.key_pilot
        found = compiledsums.causal(
            work.query, rows, CHUNK, work.key, begin, known, pilots, ROUNDING
        )
        self.means[..., some] = found.means
        self.within += found.within
        self.error += found.error
        mean, scatter = (
            work.kernels.as_array(each, work.key_pilot)
            for each in (found.mean[:, :, None], found.products)
        )
        self._window.enter_all(State(known[0] + len(rows), mean, scatter))

    def _each_before(self, key: Array) -> tuple[Integers, Array, Array]:
        """Take in chunks of keys; return what was there before each: count, mean, scatter."""
        work, so_far = self._work, self._window.state
        xp, kernels = work.xp, work.kernels
        many, depth = int(key.shape[2]), int(key.shape[4])
        mean = xp.astype(xp.mean(key, axis=-2, keepdims=True), xp.float64)
        if so_far is None:
            nothing = xp.zeros_like(xp.matrix_transpose(mean[:, :, 0]) * mean[:, :, 0])
            so_far = State(0, mean[:, :, 0] * 0.0, nothing)
        counts = so_far.count + CHUNK * np.arange(many + 1)
        after = kernels.as_array(counts[1:] / 1.0, mean)[:, None, None]
        totals = xp.concat([so_far.mean[:, :, None] * so_far.count, mean * CHUNK], axis=2)
        totals = xp.cumulative_sum(totals, axis=2)
        means = xp.concat([so_far.mean[:, :, None], totals[:, :, 1:] / after], axis=2)
        # As merge_moments has it: what a chunk adds is positive, and nothing is subtracted.
        # It is as one more key, about the mean.
        centred = work.scratch("centred", (*key.shape[:3], CHUNK + 1, depth))
        kernels.subtract(key, work.wide(mean), centred[..., :-1, :])
        centred[..., -1:, :] = (mean - means[:, :, :-1]) * xp.sqrt((1.0 - CHUNK / after) * CHUNK)
        turned = xp.matrix_transpose(centred)
        scatter = work.scratch("scatter", (*key.shape[:3], depth, depth))
        kernels.product(turned, turned, scatter)
        scatters = work.scratch("scatters", (*key.shape[:2], many + 1, depth, depth), wide=True)
        scatters[:, :, 0] = so_far.scatter
        scatters[:, :, 1:] = scatter
        for at in range(many):
            after_it = scatters[:, :, at + 1]
            after_it += scatters[:, :, at]
        self._window.enter_all(State(int(counts[-1]), means[:, :, -1], scatters[:, :, -1]))
        return counts[:-1, None], means[:, :, :-1], scatters[:, :, :-1]

    def _take(self, some: slice, rows: _Rows, about_pilot: Array) -> None:
        shape = self.means[..., some].shape
        by_head = self.within.shape
        self.within += rows.within.reshape(*by_head, -1).sum(axis=-1)
        self.error += rows.error.reshape(*by_head, -1).sum(axis=-1)
        self.means[..., some] = self._work.by_head(about_pilot) + rows.mean.reshape(shape)


def _of_core(work: Work, query: Array, count: Integers, mean: Array, scatter: Array) -> _Rows:
    """Return scores of queries, (batch, kv_heads, group, …, rows, head_dim), with known keys."""
    xp, kernels = work.xp, work.kernels
    turned, depth = xp.matrix_transpose(query), int(query.shape[-1])
    mean, of_keys = work.wide(mean)[:, :, None], work.scratch("of_keys", tuple(scatter.shape))
    of_keys[...] = scatter
    of_keys = of_keys[:, :, None]
    own, both, exact = (
        work.scratch(name, (*query.shape[:-2], depth, depth), wide=name == "exact")
        for name in ("own", "both", "exact")
    )
    kernels.product(turned, turned, own)
    kernels.multiply(own, of_keys, both)
    exact[...] = both
    within = xp.sum(exact, axis=(-2, -1))
    sizes = xp.linalg.diagonal(of_keys)[..., None]
    kernels.multiply(own, own, both)
    at_random = xp.matmul(xp.matrix_transpose(sizes), xp.matmul(both, sizes))[..., 0, 0]
    return _Rows(
        count,
        work.by_head(work.product(query, mean)),
        work.by_head(within),
        ROUNDING * np.sqrt(work.by_head(at_random)),
    )


def _of_edge(work: Work, query: Array, key: Array, first: Integers, past: Integers) -> _Rows:
    """Return scores over keys, (batch, kv_heads, 1, …, keys, head_dim), of which rows see some."""
    xp, many = work.xp, int(key.shape[-2])
    scores = work.scores(query, key)
    count = np.clip(past, 0, many) - np.clip(first, 0, many)
    ones = work.ones(first, past, many)
    if ones is not None:
        scores *= ones
    mean = work.by_head(xp.sum(scores, axis=-1)) / np.maximum(count, 1)
    if work.arithmetic == "float64":
        scores -= work.kernels.as_array(mean, scores).reshape((*scores.shape[:-1], 1))
        scores = scores if ones is None else scores * ones
    of_rows = work.kernels.empty(scores.shape[:-1], scores)
    work.kernels.squares(scores, scores, of_rows)
    squares = np.sum(work.by_head(of_rows), axis=-1)
    if work.arithmetic == "float64":
        return _Rows(count, mean, squares, np.zeros_like(squares))
    # Not centred, which costs two passes: a mean that matters shows in the error.
    return _Rows(count, mean, squares - np.sum(count * mean**2, axis=-1), ROUNDING * squares)
