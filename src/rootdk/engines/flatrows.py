"""The numbers of rows whose scores are finite, with nothing added to them and no cap.

The common case of the blocked engine, without compiled code: whole rows at a time, so few that
they stay in the cache, in two pieces of memory that every step writes over. What a row does not
see is 0 there, and adds nothing to any sum. Sums of rows stay with the library of the scores until
many are there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from rootdk._lib.arrays import Array, to_numpy
from rootdk.engines.call import Call
from rootdk.engines.codecounter import CodeCounter
from rootdk.engines.fewrows import FewRows
from rootdk.engines.flatsums import EXPONENTIALS, SCORES, Found, Memory
from rootdk.engines.hiding import Edges, Hidden, Reach, is_padding, part_of
from rootdk.engines.hostarrays import by_head, host
from rootdk.engines.operands import Operands
from rootdk.engines.priority import priorities
from rootdk.engines.rownumbers import RowNumbers
from rootdk.stats.block import Floats, Integers

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

    def measure(self, rows: Integers, step: int, room: int) -> Part:
        """Return the numbers of rows, at most so many, and so many scores, measured at a time."""
        call, operands, kernels = self.call, self.operands, self.memory.kernels
        heads = operands.num_heads
        entries = host(kernels.select(self._query, rows, 1))
        base = kernels.base(self._key) if self.wanted.softmax else math.e
        scale = call.scale / math.log(base)
        scaled = kernels.as_array(entries * scale, self._key)
        names = len(SCORES) + len(EXPONENTIALS) * self.wanted.softmax
        mean = np.zeros((heads, len(rows)))
        if not self._hides:
            # Keys are centred, and so are the scores of a row that sees them all, but for rounding.
            # By vecdot: a product would wake NumPy's threads, which then wait in a loop that burns.
            mean += np.vecdot(entries, self._total_of_keys[:, None])
            mean *= scale / self._keys
        found = Found(
            base=base,
            sums=kernels.empty((names, heads, len(rows)), self._key),
            mean=mean,
            taken=np.zeros_like(mean),
            top=np.zeros_like(mean),
            error=operands.error[:, rows],
            seen=np.full((heads, len(rows)), self._keys, dtype=np.int64),
            kernels=kernels,
        )
        counter = CodeCounter(self.memory, heads)
        reach, edges = call.reach(rows), self.memory.edges
        for some in self._steps(reach, step, room):
            seen = self._hidden(rows[some], (reach[0][some], reach[1][some]), edges)
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

    @property
    def _hides(self) -> bool:
        return self._kept is None and (self.call.mask is not None or self.call.ordered)

    @cached_property
    def _kept(self) -> Integers | None:
        """The keys that all rows see, if a mask hides all others from all rows of all heads."""
        call, operands = self.call, self.operands
        if not is_padding(call):
            return None
        place = (operands.element, operands.heads, call.rows, slice(0, call.keys))
        shown = to_numpy(part_of(call.mask, *place))[:, 0]
        kept = np.flatnonzero(np.broadcast_to(shown[:1], (1, call.keys)))
        return kept if len(kept) and (shown == shown[:1]).all() else None

    @property
    def _keys(self) -> int:
        return self.call.keys if self._kept is None else len(self._kept)

    @cached_property
    def _total_of_keys(self) -> Floats:
        xp = self.memory.kernels.namespace
        return host(xp.sum(self._key, axis=-2, dtype=xp.float64))

    @cached_property
    def _query(self) -> Array:
        return self.memory.kernels.own(self.operands.query)

    @cached_property
    def _key(self) -> Array:
        kernels = self.memory.kernels
        key = kernels.own(self.operands.key)
        return key if self._kept is None else kernels.select(key, self._kept, 1)

    def _steps(self, reach: Reach, step: int, room: int) -> Iterator[slice]:
        """Yield rows to measure at a time: at most so many, and the fewer, the more they see."""
        first, past = (end.tolist() for end in reach)  # neither of which ever falls
        of_all, start = room // self.operands.num_heads, 0
        while start < len(first):
            many = min(step, len(first) - start)
            while many > 1 and many * (past[start + many - 1] - first[start]) > of_all:
                many = -(-many // 2)
            yield slice(start, start + many)
            start += many

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
        scores, work = self.memory.pieces(shape, self._key)
        kernels.product(query, self._key[:, span], scores)
        if hidden is not None:
            found.seen[:, some] = hidden.seen
            hidden.leave_out(scores)
            kernels.sums(scores, sums["squares"])  # which are not there yet
            total = sums.host("squares")
            found.mean[:, some] = total / np.maximum(found.seen[:, some], 1)
        rows = FewRows(
            scores,
            work,
            sums,
            mean=found.mean[:, some],
            seen=found.seen[:, some],
            hidden=hidden,
            kernels=kernels,
        )
        taken = rows.squares()
        if taken is not None:
            found.taken[:, some] = taken
        error, softmax = found.error[:, some], self.wanted.softmax
        # Over the scores, while they are in the cache, unless what follows needs them and memory.
        early = self.wanted.histogram and softmax and kernels.dots_need_spare
        if early:
            rows.histogram(error, counter, work)
        if softmax:
            first = span.start if self._kept is None else self._kept[0]
            found.top[:, some], exact = rows.exponentials(starts=bool(first == 0))
            found.exact += [((head, row + some.start), better) for (head, row), better in exact]
            rows.products(scores)
        if self.wanted.histogram and not early:
            rows.histogram(error, counter, scores)
        if softmax:
            rows.powers()

    def _hidden(self, rows: Integers, reach: Reach, edges: Edges) -> tuple[Hidden | None, slice]:
        """Return what rows do not see of a range of keys, if anything, and the range."""
        call, operands = self.call, self.operands
        if not self._hides:
            return None, slice(0, self._keys)
        return edges.hidden(call, (operands.element, operands.heads), rows, reach, self._key)

    def _gaps(self, head: int, rows: Integers) -> Floats:
        """Return how far the scores of rows are below the largest; ∞ where a key is hidden."""
        kernels = self.memory.kernels
        entries = host(kernels.select(self._query[head], rows, 0))
        query = kernels.as_array(entries * self.call.scale, self._key)
        hidden, span = self._hidden(rows, self.call.reach(rows), Edges(kernels))
        key = self._key[head if self._key.shape[0] > 1 else 0, span]
        product = kernels.empty((len(rows), int(key.shape[0])), self._key)
        kernels.product(query, key, product)
        scores = to_numpy(product)
        for keys, shown in () if hidden is None else hidden.parts:
            ones = to_numpy(shown.ones)[head if shown.ones.shape[0] > 1 else 0]
            scores[:, keys] = np.where(ones > 0.0, scores[:, keys], -np.inf)
        return np.asarray(np.max(scores, axis=-1, keepdims=True) - scores)
