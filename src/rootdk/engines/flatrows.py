"""The numbers of rows whose scores are finite, with nothing added to them and no cap.

The common case of the blocked engine, without compiled code: whole rows at a time, so few that
they stay in the cache, in two pieces of memory that every step writes over. What a row does not
see takes its mean's place until the softmax, and adds nothing to any sum. Sums of rows stay with
the library of the scores until many are there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from rootdk._lib.arrays import Array, to_numpy
from rootdk.engines.call import Call
from rootdk.engines.codecounter import CodeCounter
from rootdk.engines.flatsums import EXPONENTIALS, SCORES, Found, Memory, Sums
from rootdk.engines.hiding import Edges, Hidden, hidden_by
from rootdk.engines.hostarrays import by_head, host
from rootdk.engines.kernels import Kernels
from rootdk.engines.operands import Operands
from rootdk.engines.priority import priorities
from rootdk.engines.rownumbers import RowNumbers
from rootdk.stats.block import HISTOGRAM_BINS, HISTOGRAM_REACH, Floats, Integers

_PER_UNIT = HISTOGRAM_BINS / (2.0 * HISTOGRAM_REACH)
_MIDDLE = HISTOGRAM_BINS // 2
_NEGLIGIBLE = 2.0**-40
"""Part of the squares of scores that their mean may have, and be left in them."""

Part: TypeAlias = tuple[dict[str, Any], Integers]
"""Numbers of rows by name, (num_heads, rows), and bins of their standardised scores."""


def fits(call: Call, operands: Operands) -> bool:
    """Tell whether rows of a call are of this kind."""
    return operands.finite and call.bias is None and call.softcap is None and call.keys > 0


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is asked for beside means and extremes."""

    histogram: bool
    softmax: bool
    priorities: bool


@dataclass(eq=False)
class FlatRows:
    """Rows of some heads of one batch element, measured a few at a time.

    Attributes
    ----------
    call, operands
        The rows and what they are measured with.
    wanted : Wanted
        What to compute.
    memory : Memory
        Where: every thread has its own.
    """

    call: Call
    operands: Operands
    wanted: Wanted
    memory: Memory
    _edges: Edges = field(default_factory=dict)

    def measure(self, rows: Integers, step: int) -> Part:
        """Return the numbers of rows, so many measured at a time."""
        call, operands, kernels = self.call, self.operands, self.memory.kernels
        heads = operands.heads.stop - operands.heads.start
        entries = host(kernels.select(operands.query, rows, 1))
        base = kernels.base(operands.key) if self.wanted.softmax else math.e
        scale = call.scale / math.log(base)
        scaled = kernels.as_array(entries * scale, operands.key)
        names = len(SCORES) + len(EXPONENTIALS) * self.wanted.softmax
        # By vecdot: a product would wake NumPy's threads, which then wait in a loop that burns.
        # Keys are centred, and so are the scores of a row that sees them all, but for rounding.
        mean = np.vecdot(entries, self._total_of_keys[:, None])
        mean *= scale / call.keys
        found = Found(
            base=base,
            sums=kernels.empty((names, heads, len(rows)), operands.key),
            mean=mean,
            taken=np.zeros_like(mean),
            seen=np.full((heads, len(rows)), call.keys, dtype=np.int64),
            kernels=kernels,
        )
        counter = CodeCounter(kernels, heads)
        reach = call.reach(rows)
        for start in range(0, len(rows), step):
            some = slice(start, min(start + step, len(rows)))
            seen = self._hidden(rows[some], (reach[0][some], reach[1][some]))
            self._measure(seen, some, scaled[:, some], found, counter)
        offset = call.scale * np.vecdot(entries, operands.centre[:, None])
        columns: dict[str, Any] = found.columns
        for name in ("score_mean", "score_min", "score_max", "peak"):
            columns[name] += np.where(found.seen > 0, offset, 0.0)
        columns |= {"visible_keys": found.seen, "priorities": np.zeros_like(found.seen)}
        if self.wanted.priorities:
            columns["priorities"] = priorities(entries, found.seen)
        return columns, counter.counts()

    def together(self, rows: Integers, parts: Sequence[Part]) -> RowNumbers:
        """Return the numbers of rows, measured in parts."""
        columns = {
            name: np.concatenate([part[name] for part, _ in parts], axis=1) for name in parts[0][0]
        }
        return RowNumbers(
            visible_keys=columns.pop("visible_keys"),
            priorities=columns.pop("priorities"),
            columns=columns,
            histogram=np.sum([bins for _, bins in parts], axis=0),
            gaps=lambda heads, some: (
                self._gaps(head, rows[some[at]]) for head, at in by_head(heads)
            ),
        )

    @cached_property
    def _total_of_keys(self) -> Floats:
        xp = self.memory.kernels.namespace
        return host(xp.sum(self.operands.key, axis=-2, dtype=xp.float64))

    def _measure(
        self,
        seen: tuple[Hidden | None, slice],
        some: slice,
        query: Array,
        found: Found,
        counter: CodeCounter,
    ) -> None:
        """Measure rows that belong into some of those of what is found."""
        kernels, (hidden, span) = self.memory.kernels, seen
        sums = found.some(some)
        shape = (int(query.shape[0]), some.stop - some.start, span.stop - span.start)
        scores, work = self.memory.pieces(shape, self.operands.key)
        kernels.product(query, self.operands.key[:, span], scores)
        if hidden is not None:
            self._visible_squares(scores, work, sums, found, some, hidden)
        else:
            self._squares(scores, work, sums, found, some)
        kernels.extremes(scores, sums["least"], sums["greatest"])
        if self.wanted.histogram:
            many = None if hidden is None else found.seen[:, some]
            self._histogram(scores, sums, many, work, counter)
        if self.wanted.softmax:
            kernels.subtract(scores, sums["greatest"][..., None], scores)
            if hidden is not None:
                hidden.put_out(scores)
            exact = self._softmax(scores, work, sums, hidden, starts=span.start == 0)
            found.exact += [((head, row + some.start), better) for (head, row), better in exact]

    def _squares(self, scores: Array, work: Array, sums: Sums, found: Found, some: slice) -> None:
        """Sum the squares of rows that see all keys, without what their mean has in them."""
        kernels, mean = self.memory.kernels, found.mean[:, some]
        kernels.squares(scores, work, sums["squares"])
        part = mean * mean * (self.call.keys / _NEGLIGIBLE)
        if (part > sums.host("squares")).any():
            kernels.subtract(scores, kernels.as_array(mean, scores)[..., None], scores)
            found.taken[:, some] = mean
            kernels.squares(scores, work, sums["squares"])

    def _visible_squares(
        self, scores: Array, work: Array, sums: Sums, found: Found, some: slice, hidden: Hidden
    ) -> None:
        """Take the mean of what is visible off scores, put 0 over the rest, and sum squares."""
        kernels = self.memory.kernels
        found.seen[:, some] = hidden.visible(tuple(scores.shape))
        hidden.leave_out(scores)
        total = host(kernels.namespace.sum(scores, axis=-1))
        mean = found.mean[:, some] = total / np.maximum(found.seen[:, some], 1)
        kernels.subtract(scores, kernels.as_array(mean, scores)[..., None], scores)
        hidden.leave_out(scores)
        found.taken[:, some] = mean
        kernels.squares(scores, work, sums["squares"])

    def _hidden(
        self, rows: Integers, reach: tuple[Integers, Integers]
    ) -> tuple[Hidden | None, slice]:
        """Return what rows do not see of a range of keys, if anything, and the range."""
        call, operands = self.call, self.operands
        if call.mask is None and not call.ordered:
            return None, slice(0, call.keys)
        first, past = reach
        begin = min(int(np.min(first)), call.keys - 1)
        span = slice(begin, max(int(np.max(past)), begin + 1))
        place = operands.element, operands.heads
        return hidden_by(call, *place, rows, reach, span, operands.key, self._edges), span

    def _gaps(self, head: int, rows: Integers) -> Floats:
        """Return how far the scores of rows are below the largest; ∞ where a key is hidden."""
        operands, kernels = self.operands, self.memory.kernels
        entries = host(kernels.select(operands.query[head], rows, 0))
        query = kernels.as_array(entries * self.call.scale, operands.key)
        hidden, span = self._hidden(rows, self.call.reach(rows))
        key = operands.key[head if operands.key.shape[0] > 1 else 0, span]
        scores = to_numpy(kernels.namespace.matmul(query, key.mT))
        for keys, shown in () if hidden is None else hidden.parts:
            ones = to_numpy(shown.ones)[head if shown.ones.shape[0] > 1 else 0]
            scores[:, keys] = np.where(ones > 0.0, scores[:, keys], -np.inf)
        return np.asarray(np.max(scores, axis=-1, keepdims=True) - scores)

    def _histogram(
        self, scores: Array, sums: Sums, seen: Integers | None, work: Array, counter: CodeCounter
    ) -> None:
        """Count standardised scores."""
        kernels, keys = self.memory.kernels, int(scores.shape[-1])
        variance = sums.host("squares") / (keys if seen is None else np.maximum(seen, 1))
        flat = variance <= (self.operands.error / math.log(sums.base)) ** 2
        elsewhere: Any = 0
        if seen is not None or flat.any():
            # What does not count stands at the mean, and so does every score of a flat row.
            counted = np.zeros_like(flat, dtype=np.int64) + (keys if seen is None else seen)
            counted[flat] = 0
            elsewhere = np.sum(keys - counted, axis=-1)
            variance = np.where(counted > 0, variance, np.inf)
        inverse = _PER_UNIT / np.sqrt(variance)
        kernels.multiply(scores, kernels.as_array(inverse, scores)[..., None], work)
        work += _MIDDLE
        least, greatest = sums.host("least") * inverse, sums.host("greatest") * inverse
        if least.min() < 0.5 - _MIDDLE or greatest.max() > _MIDDLE - 0.5:
            # Whole parts up to this are the last bin's.
            kernels.clip(work, 0.0, HISTOGRAM_BINS - 0.5)
        counter.add(work, less=elsewhere, at=_MIDDLE)

    def _softmax(
        self, gaps: Array, work: Array, sums: Sums, hidden: Hidden | None, *, starts: bool
    ) -> list[tuple[tuple[Any, ...], dict[str, Floats]]]:
        """Sum exponentials; gaps are lost. Return sums without a largest where it matters."""
        kernels = self.memory.kernels
        kernels.weights(gaps, sums.base, work, sums["largest"])
        if hidden is not None:
            hidden.leave_out(work)
        sums["first"][...] = work[..., 0] if starts else 0.0
        kernels.dots(work, gaps, gaps, sums["weighted_gaps"])
        _powers(work, gaps, kernels, sums)
        # Leaving the largest out costs a pass, and matters only where it dwarfs the others.
        dwarfs = sums.host("others") < 2.0 * sums.host("largest")
        if not dwarfs.any():
            return []
        dwarfed = np.nonzero(dwarfs)
        some = work[tuple(kernels.as_index(each, work) for each in dwarfed)]
        kernels.zero_largest(some)
        names = EXPONENTIALS[-3:]
        better = kernels.empty((len(names), int(some.shape[0])), some)
        _powers(
            some, kernels.empty(some.shape, some), kernels, dict(zip(names, better, strict=True))
        )
        return [(dwarfed, dict(zip(names, host(better), strict=True)))]


def _powers(work: Array, spare: Array, kernels: Kernels, sums: dict[str, Array]) -> None:
    """Sum numbers, their squares and their cubes."""
    kernels.sums(work, sums["others"])
    kernels.multiply(work, work, spare)
    kernels.sums(spare, sums["other_squares"])
    kernels.dots(work, spare, spare, sums["other_cubes"])
