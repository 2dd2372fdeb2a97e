"""The sum and the scatter of a range of keys, both of whose ends go up, in whole chunks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from rootdk._lib.arrays import Array
from rootdk.engines.hostarrays import host
from rootdk.engines.kernels import Kernels
from rootdk.engines.scatter import pilot_of
from rootdk.stats.block import Floats, Integers


@dataclass(frozen=True, eq=False)
class State:
    """What is known of some keys.

    Attributes
    ----------
    count : int
        How many.
    mean : array of float64, shape (batch, kv_heads, 1, head_dim)
        Their mean, less the pilot.
    scatter : array of float64, shape (batch, kv_heads, head_dim, head_dim)
        Their scatter about the mean.
    """

    count: int
    mean: Array
    scatter: Array

    def merge(self, other: State) -> State:
        """Return the state of both: as merge_moments, with an outer product for a square."""
        count = self.count + other.count
        gap = other.mean - self.mean
        weighted = gap * (self.count * other.count / count) ** 0.5
        scatter = self.scatter + other.scatter
        scatter += weighted * weighted.mT
        return State(count, self.mean + gap * (other.count / count), scatter)


@dataclass(frozen=True, eq=False)
class Work:
    """Queries and keys of some heads, and what they are taken about.

    Attributes
    ----------
    query : array, shape (batch, heads, queries, head_dim)
        Heads that share a key-value head stand together.
    key : array, shape (batch, kv_heads, keys, head_dim)
        As given.
    arithmetic : str
        The dtype of products.
    kernels
        The library of the arrays.
    """

    query: Array
    key: Array
    arithmetic: str
    kernels: Kernels
    _ones: dict[tuple[bytes, bytes, int], Any] = field(default_factory=dict)
    _memory: dict[tuple[str, tuple[int, ...]], Array] = field(default_factory=dict)

    @property
    def xp(self) -> Any:
        """The array API namespace of the arrays."""
        return self.kernels.namespace

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Sizes: (batch, kv_heads, query heads that share one, head_dim)."""
        batch, heads, _, depth = (int(size) for size in self.query.shape)
        kv_heads = int(self.key.shape[1])
        return batch, kv_heads, heads // kv_heads, depth

    @cached_property
    def query_pilot(self) -> Array:
        """Mean of some queries, (batch, heads, 1, head_dim)."""
        return pilot_of(self.query, self.kernels)

    @cached_property
    def key_pilot(self) -> Array:
        """Mean of some keys, (batch, kv_heads, 1, head_dim)."""
        return pilot_of(self.key, self.kernels)

    @cached_property
    def product_of_pilots(self) -> Floats:
        """The score of the two pilots, (batch, heads)."""
        key = np.repeat(host(self.key_pilot), self.sizes[2], axis=1)
        return np.asarray(np.sum(host(self.query_pilot) * key, axis=(-2, -1)))

    def wide(self, array: Array) -> Array:
        """Return an array in the arithmetic of the products."""
        return self.xp.astype(array, self.kernels.dtype(self.arithmetic), copy=False)

    def scratch(self, name: str, shape: tuple[int, ...], *, wide: bool = False) -> Array:
        """Return memory in the arithmetic or in float64, which is lost when it is asked for again.

        New memory for every few rows would cost more than what is done with it.
        """
        known = self._memory.get((name, shape))
        if known is None:
            size, of_name = math.prod(shape), self._memory.get((name, ()))
            if of_name is None or of_name.shape[0] < size:
                like = self.xp.astype(self._like, self.xp.float64) if wide else self._like
                of_name = self._memory[name, ()] = self.kernels.empty((size,), like)
            known = self._memory[name, shape] = of_name[:size].reshape(shape)
        return known

    def less(self, name: str, array: Array, about: Array) -> Array:
        """Return an array less another of the arithmetic, in it and in scratch memory."""
        return self.kernels.subtract(array, about, self.scratch(name, tuple(array.shape)))

    @cached_property
    def _query_pilot(self) -> Array:
        return self.wide(self.query_pilot)

    @cached_property
    def _key_pilot(self) -> Array:
        return self.wide(self.key_pilot)

    @cached_property
    def _like(self) -> Array:
        return self.wide(self.query[:0])

    def keys(self, start: int, stop: int) -> Array:
        """Return keys of a range less the pilot, (batch, kv_heads, keys, head_dim), in scratch."""
        return self.less("keys", self.key[:, :, start:stop], self._key_pilot)

    def queries(self, rows: Integers) -> tuple[Array, Array]:
        """Return queries, (batch, kv_heads, group, rows, head_dim), and their score with the pilot.

        The latter is less that of the pilot of the queries. The queries are in scratch.
        """
        batch, kv_heads, group, depth = self.sizes
        # A copy: products of what lies in pieces would each make their own.
        given = self.kernels.select(self.query, rows, 2)
        query = self.scratch("queries", tuple(given.shape))
        query[...] = given
        shape = (batch, kv_heads, group, len(rows), depth)
        centred = self.less("centred", query, self._query_pilot)
        pilot = self._key_pilot[:, :, None]
        return query.reshape(shape), self.product(centred.reshape(shape), pilot)

    def scores(self, query: Array, key: Array) -> Array:
        """Return the products of queries and keys, in memory that the next ones are written to."""
        found = self.scratch("scores", (*query.shape[:-1], int(key.shape[-2])))
        self.kernels.product(query, key, found)
        return found

    def product(self, rows: Array, of: Array) -> Array:
        """Return the products of rows, (…, rows, head_dim), with one more, (…, 1, head_dim)."""
        return self.xp.matmul(rows, self.xp.matrix_transpose(of))[..., 0]

    def ones(self, first: Integers, past: Integers, many: int) -> Array | None:
        """Return 1 for each of so many keys that a row sees, 0 for others; None if all do."""
        first, past = np.clip(first, 0, many), np.clip(past, 0, many)
        place = (first.tobytes(), past.tobytes(), many)
        if place not in self._ones:
            position = np.arange(many)
            seen = (position >= first[:, None]) & (position < past[:, None])
            # The next rows see their edge as these do, or no later ones will.
            self._ones.clear()
            numbers = self.kernels.as_array(seen.astype(np.float64), self._like)
            self._ones[place] = None if np.all(seen) else numbers
        return self._ones[place]

    def by_head(self, array: Array) -> Floats:
        """Return (batch, kv_heads, group, …) numbers as float64 (batch, heads, …)."""
        values = host(array)
        return values.reshape(values.shape[0], -1, *values.shape[3:])

    def mean_and_scatter(self, key: Array) -> tuple[Array, Array]:
        """Return the mean of keys less the pilot, (…, keys, head_dim), and their scatter."""
        xp = self.xp
        mean = xp.mean(key, axis=-2, keepdims=True)
        centred = self.less("centred", key, mean)
        scatter = xp.matmul(xp.matrix_transpose(centred), centred)
        return xp.astype(mean, xp.float64), xp.astype(scatter, xp.float64)


class KeyWindow:
    """The state of the whole chunks in a range of keys.

    Chunks that enter are added up; of those that have to leave, the states of all later ones
    are kept. So nothing is ever subtracted, and a large key leaves no rounding behind.

    Parameters
    ----------
    work : Work
        The keys.
    chunk : int
        Keys in a chunk.
    origin : int
        Where the first whole chunk begins, less than ``chunk``.
    slides : bool
        Whether the first end of the range goes up, or only jumps once.
    """

    def __init__(self, work: Work, *, chunk: int, origin: int, slides: bool) -> None:
        self._work = work
        self._chunk = chunk
        self._origin = origin
        self._slides = slides
        self._start = self._stop = 0
        self._entered: list[State] = []
        self._entered_sum: State | None = None
        self._leaving: list[State] = []
        self.state: State | None = None

    def between(self, start: int, stop: int) -> tuple[int, int]:
        """Move to the whole chunks of a range; return where they begin and end."""
        start = self._grid(start + self._chunk - 1) if start else 0
        stop = self._grid(stop)
        if start >= stop:
            self.state = None
            return start, start
        if start >= self._stop:
            self._start = self._stop = start
            self._entered, self._entered_sum, self._leaving = [], None, []
        while self._stop < stop:
            following = self._next(self._stop)
            many = following - self._stop
            found = self._work.mean_and_scatter(self._work.keys(self._stop, following))
            self.enter(State(many, *found))
        while self._start < start:
            self._leave()
        self.state = self._sum()
        return start, stop

    def enter(self, chunk: State) -> None:
        """Take in the keys that follow."""
        before = self._entered_sum
        self._entered_sum = chunk if before is None else before.merge(chunk)
        self._stop += chunk.count
        if self._slides:
            self._entered.append(chunk)
        else:
            self.state = self._entered_sum

    def enter_all(self, state: State) -> None:
        """Take in the keys that follow, given the state of all up to their last; none may leave."""
        assert not self._slides
        self._stop = state.count
        self.state = self._entered_sum = state

    def _sum(self) -> State | None:
        parts = [part for part in (*self._leaving[-1:], self._entered_sum) if part is not None]
        return parts[0].merge(parts[1]) if len(parts) == 2 else (parts[0] if parts else None)

    def _leave(self) -> None:
        if not self._leaving:
            later: State | None = None
            for chunk in reversed(self._entered):
                later = chunk if later is None else chunk.merge(later)
                self._leaving.append(later)
            self._entered, self._entered_sum = [], None
        self._leaving.pop()
        self._start = self._next(self._start)

    def _grid(self, position: int) -> int:
        """Return the last end of a chunk up to a position."""
        if position < self._origin:
            return 0
        return (position - self._origin) // self._chunk * self._chunk + self._origin

    def _next(self, position: int) -> int:
        return self._origin if position < self._origin else position + self._chunk
