"""The blocked engine where Numba is installed: one compiled pass, on every thread.

It takes calls in main memory whose scores float32 can hold; what it does not take,
:mod:`rootdk.engines.blocked` computes with the library of the arrays.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np

from rootdk._lib.arrays import float_info
from rootdk.engines.call import Call, UnfitError
from rootdk.engines.compiledhead import Head, Keys, gaps, hidden, lay_out, of_head
from rootdk.engines.fill import empty_states, grown
from rootdk.engines.hiding import is_padding
from rootdk.engines.rownumbers import SOFTMAX, RowNumbers
from rootdk.engines.workers import ALONE, Workers, float32_at_least, hired, in_reach
from rootdk.stats.block import HISTOGRAM_BINS, Integers
from rootdk.stats.statistic import BlockStatistic, statistics

WORTH = 2**27
"""Scores, of all calls of a process, from which compiled code earns the time that loading it takes.

Half a second, and a hundred MiB; the library of the arrays is slower by as much for so many.
"""

WORTH_LOADED = 2**17
"""Scores of a call from which compiled code is quicker once it is there."""

SCORE = 2.0
"""Nanoseconds that a score takes one thread, about."""

ENTRIES = 2**19
"""Entries of keys from which on threads share the preparation."""

TOGETHER = 2**16
"""Rows, and keys, of all heads whose numbers are held at once, unless one head has more."""

CHUNK = 256
"""Rows that a thread takes at a time, at most."""

LARGEST_ERROR = 2.0**-10
"""Nats that a score may be off by in float32, to first order."""

_DEVIATIONS = {"score_moments", "within_rows"}


@dataclass(slots=True)
class _Missed:
    """What compiled code could have measured in this process and has not, not being loaded."""

    scores: int = 0


_missed = _Missed()


def is_loaded() -> bool:
    """Tell whether compiled code is there, so that it costs nothing to load."""
    return f"{__package__}._numba.rows" in sys.modules


def fits(call: Call) -> bool:
    """Tell whether compiled code takes a call, as far as can be told from its arguments.

    Before it is loaded, a call has to be large, or others that it could have taken have to add up.
    """
    enough = call.scores >= WORTH_LOADED if is_loaded() else _missed.scores + call.scores >= WORTH
    return enough and _takes(call)


def count_missed(call: Call) -> None:
    """Count a call that something else has measured."""
    if not is_loaded() and _takes(call):
        _missed.scores += call.scores


def _takes(call: Call) -> bool:
    return (
        call.head_dim > 0
        and float_info(call.query).bits <= 32
        and float_info(call.key).bits <= 32
        and all(map(in_reach, (call.query, call.key)))
    )


def run(call: Call, names: set[str]) -> tuple[dict[str, BlockStatistic], str]:
    """Return the named statistics of a call, and what ran.

    Raises
    ------
    UnfitError
        If an entry or a bias is not finite, or scores are too large for float32.
    """
    from rootdk.engines._numba import rows as kernels

    wanted = kernels.DEVIATIONS if names & _DEVIATIONS else 0
    wanted |= kernels.HISTOGRAM if "score_histogram" in names else 0
    wanted |= kernels.SOFTMAX if names & SOFTMAX else 0
    parts: list[dict[str, BlockStatistic]] = []
    with hired(SCORE * call.scores) as workers:
        for heads in _head_slices(call):
            states: dict[str, BlockStatistic] = {}
            for element in range(call.batch):
                work = _Work(call, element, heads, wanted, workers, kernels)
                for rows in _row_slices(call):
                    states = grown(states, names, work.block(rows))
            parts.append(states or empty_states(names, heads.stop - heads.start))
    known = statistics()
    stacked = {name: known[name].stack([part[name] for part in parts]) for name in parts[0]}
    rows_at_once = min(kernels.rows_together(call.keys), len(call.rows))
    return stacked, f"numba, float32, {rows_at_once}×{call.keys}"  # type: ignore[return-value]


def _row_slices(call: Call) -> Iterator[Integers]:
    """Yield so many of the rows at a time that their numbers take little room."""
    for start in range(0, len(call.rows), TOGETHER // 4):
        yield call.rows[start : start + TOGETHER // 4]


def _head_slices(call: Call) -> Iterator[slice]:
    step = max(TOGETHER // max(len(call.rows), call.keys), 1)
    for start in range(0, call.num_heads, step):
        yield slice(start, min(start + step, call.num_heads))


@dataclass(frozen=True, eq=False)
class _Work:
    """Some heads of one batch element; keys are laid out once for all heads that share them."""

    call: Call
    element: int
    heads: slice
    wanted: int
    workers: Workers
    kernels: ModuleType

    def block(self, rows: Integers) -> RowNumbers:
        """Measure rows."""
        call, kernels = replace(self.call, rows=rows), self.kernels
        many = self.heads.stop - self.heads.start
        numbers = np.zeros((len(kernels.NUMBERS), many, len(rows)))
        counts = np.zeros((2, many, len(rows)), dtype=np.int64)
        heads = self._prepared
        first, past = call.reach(rows)
        ends = {head.keys.count: np.minimum(past, head.keys.count) for head in heads}

        def measure(task: tuple[int, int, int]) -> tuple[int, Integers, bool]:
            at, start, stop = task
            head, found = heads[at], np.zeros(HISTOGRAM_BINS, dtype=np.int64)
            keys, (bias_from, bias) = head.keys, head.bias_of(rows[start:stop])
            sound = kernels.measure_rows(
                *(head.query, rows, start, stop, call.scale, keys.centre, keys.laid, keys.count),
                *(first, ends[keys.count], head.mask, bias, bias_from, keys.first),
                *(call.softcap or 0.0, 4.0 * head.error, self.wanted),
                *(numbers[:, at].T, counts[:, at].T, found),
            )
            return at, found, sound

        bins = np.zeros((many, HISTOGRAM_BINS), dtype=np.int64)
        for at, found, sound in self.workers.map(measure, self._tasks(len(rows), many)):
            if not sound:
                raise UnfitError("a bias is not finite")
            bins[at] += found
        return RowNumbers(
            columns=dict(zip(kernels.NUMBERS, numbers, strict=True)),
            visible_keys=counts[0],
            priorities=counts[1],
            histogram=bins,
            gaps=lambda at, some: gaps(heads, (at, rows[some]), call, (first[some], past[some])),
        )

    def _tasks(self, rows: int, heads: int) -> list[tuple[int, int, int]]:
        """Return head, first row and row past the last of each task, the longest first."""
        step = min(max(rows * heads // (8 * self.workers.threads), self.kernels.ROWS), CHUNK)
        starts = range(0, rows, step)
        # In causal order the last rows see the most keys.
        ends = [(start, min(start + step, rows)) for start in reversed(starts)]
        return [(at, *each) for each in ends for at in range(heads)]

    @cached_property
    def _prepared(self) -> list[Head]:
        """The heads; keys are laid out once for all that share them."""
        from rootdk.engines._numba import panels

        call, heads = self.call, range(self.heads.start, self.heads.stop)
        query = float32_at_least(call.query[self.element][self.heads])
        largest = np.empty(len(heads))
        panels.largest_norms(query, call.rows, largest)
        return [
            self._head(*each)
            for each in zip(heads, query, largest.tolist(), self._keys, strict=True)
        ]

    @property
    def _keys(self) -> list[Keys]:
        """The keys of each head."""
        call, heads = self.call, range(self.heads.start, self.heads.stop)
        of_kv = [head // call.queries_per_kv_head for head in heads]
        key = float32_at_least(call.key[self.element][of_kv[0] : of_kv[-1] + 1])
        places = [at - of_kv[0] for at in of_kv]
        workers = self.workers if key.size >= ENTRIES else ALONE
        mask = call.mask if is_padding(call) else None
        if mask is not None and mask.shape[1] > 1:
            # Heads whose padding differs see different keys.
            shown = [of_head(mask, self.element, head)[0] for head in heads]
            each = zip(places, shown, strict=True)
            return [lay_out(key[at : at + 1], seen, ALONE)[0] for at, seen in each]
        seen = None if mask is None else of_head(mask, self.element, 0)[0]
        laid = lay_out(key, seen, workers)
        return [laid[at] for at in places]

    def _head(self, head: int, query: Any, largest: float, keys: Keys) -> Head:
        call = self.call
        error = float_info("float32").eps * keys.largest
        if not error * abs(call.scale) * math.sqrt(largest) <= LARGEST_ERROR:  # not so for NaN
            raise UnfitError("scores are too large for float32")
        mask, bias = hidden(call, self.element, head)
        return Head(query=query, keys=keys, error=error, mask=mask, bias=bias, kernels=self.kernels)
