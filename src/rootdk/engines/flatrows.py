"""The numbers of rows whose scores are finite, with nothing added to them and no cap.

The common case of the blocked engine, without compiled code: whole rows at a time, so few that
they stay in the cache, in two pieces of memory that every step writes over. What a row does not
see takes its mean's place until the softmax, and adds nothing to any sum.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rootdk._lib.arrays import Array, to_numpy
from rootdk.engines.call import Call
from rootdk.engines.hiding import Hidden, hidden_by
from rootdk.engines.kernels import Kernels, host
from rootdk.engines.operands import Operands
from rootdk.engines.priority import priorities
from rootdk.engines.rownumbers import RowNumbers
from rootdk.stats.block import HISTOGRAM_BINS, HISTOGRAM_REACH, Floats, Integers

_PER_UNIT = HISTOGRAM_BINS / (2.0 * HISTOGRAM_REACH)
_MIDDLE = HISTOGRAM_BINS // 2
_HIDDEN = -1e30
"""What stands for a score that is left out of the softmax: its exponential is 0."""

_NEGLIGIBLE = 2.0**-20
"""Part of the squares of scores that their mean may have, and still be taken out afterwards."""

_NAMES = (
    "score_mean score_m2 score_min score_max peak others weighted_gaps other_squares other_cubes"
    " first"
).split()


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
class Memory:
    """Two pieces of memory for scores, made when first asked for."""

    kernels: Kernels
    _pieces: dict[int, Array] = field(default_factory=dict)
    _bytes: Array | None = None

    def piece(self, which: int, shape: tuple[int, int, int], like: Array) -> Array:
        """Return one of the two, of a shape."""
        size = int(np.prod(shape))
        known = self._pieces.get(which)
        if known is None or known.shape[0] < size or known.dtype != like.dtype:
            known = self._pieces[which] = self.kernels.empty((size,), like)
        return known[:size].reshape(shape)

    def bytes_for(self, array: Array) -> Array:
        """Return a byte for each element of an array."""
        size = int(np.prod(array.shape))
        if self._bytes is None or self._bytes.shape[0] < size:
            self._bytes = self.kernels.bytes_for(array.reshape(-1))
        return self._bytes[:size].reshape(array.shape)


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
        Where.
    """

    call: Call
    operands: Operands
    wanted: Wanted
    memory: Memory
    _total: tuple[slice, Floats] | None = None

    def measure(self, rows: Integers, step: int) -> RowNumbers:
        """Return the numbers of rows, so many measured at a time."""
        call, operands, kernels = self.call, self.operands, self.memory.kernels
        heads = operands.heads.stop - operands.heads.start
        columns = {name: np.zeros((heads, len(rows))) for name in _NAMES}
        visible = np.zeros((heads, len(rows)), dtype=np.int64)
        bins = np.zeros((heads, HISTOGRAM_BINS), dtype=np.int64)
        entries = host(kernels.select(operands.query, rows, 1))
        scaled = kernels.as_array(entries * call.scale, operands.key)
        for start in range(0, len(rows), step):
            some = slice(start, min(start + step, len(rows)))
            found, visible[:, some] = self._measure(rows[some], scaled[:, some], bins)
            for name, values in found.items():
                columns[name][:, some] = values
        offset = call.scale * np.matmul(entries, operands.centre[:, :, None])[..., 0]
        for name in ("score_mean", "score_min", "score_max", "peak"):
            columns[name] += np.where(visible > 0, offset, 0.0)
        numbers = np.zeros(visible.shape, dtype=np.int64)
        if self.wanted.priorities:
            numbers = priorities(entries, visible)
        return RowNumbers(
            columns=columns,
            visible_keys=visible,
            priorities=numbers,
            histogram=bins,
            gaps=lambda head, row: self._gaps(head, rows[row : row + 1], scaled[:, row : row + 1]),
        )

    def _measure(
        self, rows: Integers, query: Array, bins: Integers
    ) -> tuple[dict[str, Floats], Integers]:
        """Return numbers, without offset, and visible keys of rows; add to the histogram."""
        call, operands, kernels = self.call, self.operands, self.memory.kernels
        xp = kernels.namespace
        first, past = call.reach(rows)
        begin = min(int(np.min(first)), call.keys - 1)
        span = slice(begin, max(int(np.max(past)), begin + 1))
        shape = (int(query.shape[0]), len(rows), span.stop - span.start)
        scores = self.memory.piece(0, shape, operands.key)
        kernels.product(query, operands.key[:, span], scores)
        hidden = self._hidden(rows, (first, past), span)
        seen = hidden.visible(shape)
        count = np.maximum(seen, 1)
        if hidden.parts:
            hidden.leave_out(scores)
            mean = host(xp.sum(scores, axis=-1)) / count
            kernels.subtract(scores, kernels.as_array(mean, scores)[..., None], scores)
            hidden.leave_out(scores)
            shift = np.zeros_like(mean)
        else:
            # Keys are centred, and so are the scores of a row that sees them all, but for rounding.
            total = kernels.as_array(self._total_of_keys(span), query)[..., None]
            mean = shift = host(xp.matmul(query, total))[..., 0] / count
        work = self.memory.piece(1, shape, operands.key)
        squares = host(kernels.squares(scores, work))
        if np.any(count * shift**2 > _NEGLIGIBLE * squares):
            kernels.subtract(scores, kernels.as_array(shift, scores)[..., None], scores)
            hidden.leave_out(scores)
            shift = np.zeros_like(mean)
            squares = host(kernels.squares(scores, work))
        greatest = xp.max(scores, axis=-1, keepdims=True)
        top = host(greatest)[..., 0] + mean - shift
        least = host(xp.min(scores, axis=-1)) + mean - shift
        m2 = np.maximum(squares - count * shift**2, 0.0)
        found = {
            "score_mean": np.where(seen > 0, mean, 0.0),
            "score_m2": m2,
            "score_min": np.where(seen > 0, least, np.inf),
            "score_max": np.where(seen > 0, top, -np.inf),
            "peak": top,
        }
        if self.wanted.histogram:
            bins += self._histogram(scores, shift, np.sqrt(m2 / count), seen, work)
        if self.wanted.softmax:
            kernels.subtract(scores, greatest, scores)
            hidden.put_out(scores, _HIDDEN)
            found |= self._softmax(scores, work, starts=span.start == 0)
        return found, seen

    def _hidden(self, rows: Integers, reach: tuple[Integers, Integers], span: slice) -> Hidden:
        operands = self.operands
        place = operands.element, operands.heads
        return hidden_by(self.call, *place, rows, reach, span, operands.key)

    def _gaps(self, head: int, row: Integers, query: Array) -> Floats:
        """Return the scores of a row's visible keys less the largest of them."""
        operands, kernels = self.operands, self.memory.kernels
        first, past = self.call.reach(row)
        span = slice(int(first[0]), int(past[0]))
        key = operands.key[head if operands.key.shape[0] > 1 else 0, span]
        gaps = to_numpy(kernels.namespace.matmul(key, query[head, 0][:, None])[:, 0])
        hidden = self._hidden(row, (first, past), span)
        if hidden.parts:
            ((_, ones),) = hidden.parts
            gaps = gaps[to_numpy(ones)[head if ones.shape[0] > 1 else 0, 0] > 0.0]
        return np.asarray(gaps - np.max(gaps, initial=-np.inf))

    def _total_of_keys(self, span: slice) -> Floats:
        if self._total is None or self._total[0] != span:
            key = self.operands.key[:, span]
            self._total = span, host(self.memory.kernels.namespace.sum(key, axis=-2))
        return self._total[1]

    def _histogram(
        self, scores: Array, shift: Floats, deviation: Floats, seen: Integers, work: Array
    ) -> Integers:
        """Return the bins of standardised scores."""
        kernels = self.memory.kernels
        shaped = (seen > 0) & (deviation > self.operands.error)
        inverse = np.where(shaped, _PER_UNIT / np.where(shaped, deviation, 1.0), 0.0)
        kernels.multiply(scores, kernels.as_array(inverse, scores)[..., None], work)
        if np.any(shift):
            work += kernels.as_array(_MIDDLE - shift * inverse, scores)[..., None]
        else:
            work += _MIDDLE
        # Whole parts up to this are the last bin's.
        kernels.clip(work, 0.0, HISTOGRAM_BINS - 0.5)
        found = kernels.count_codes(kernels.codes(work, self.memory.bytes_for(work)))
        # What does not count stands at the mean, and so does every score of a flat row.
        keys = int(scores.shape[-1])
        found[:, _MIDDLE] -= np.sum(np.where(shaped, keys - seen, keys), axis=-1)
        return found

    def _softmax(self, gaps: Array, work: Array, *, starts: bool) -> dict[str, Floats]:
        """Return sums over exponentials, one largest of each row left out; gaps are lost."""
        kernels = self.memory.kernels
        xp = kernels.namespace
        kernels.exponential(gaps, work)
        found = {"first": host(work[..., 0]) * starts}
        kernels.multiply(work, gaps, gaps)
        found["weighted_gaps"] = host(xp.sum(gaps, axis=-1))
        found |= _powers(work, gaps, kernels, largest=1.0)
        # Leaving the largest out costs a pass, and matters only where it dwarfs the others.
        dwarfed = np.nonzero(found["others"] < 1.0)
        if len(dwarfed[0]):
            at = tuple(kernels.as_index(each, work) for each in dwarfed)
            some = work[at]
            kernels.zero_largest(some)
            exact = _powers(some, kernels.empty(some.shape, some), kernels, largest=0.0)
            for name, values in exact.items():
                found[name][dwarfed] = values
        return found


def _powers(work: Array, spare: Array, kernels: Kernels, *, largest: float) -> dict[str, Floats]:
    """Return sums of exponentials, of their squares and cubes, less what the largest adds."""
    xp = kernels.namespace
    sums: list[Any] = [host(xp.sum(work, axis=-1))]
    kernels.multiply(work, work, spare)
    sums.append(host(xp.sum(spare, axis=-1)))
    kernels.multiply(work, spare, spare)
    sums.append(host(xp.sum(spare, axis=-1)))
    names = ("others", "other_squares", "other_cubes")
    return {name: np.maximum(each - largest, 0.0) for name, each in zip(names, sums, strict=True)}
