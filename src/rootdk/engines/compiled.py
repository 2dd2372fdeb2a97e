"""The blocked engine where Numba is installed: one compiled pass, on every thread.

It takes calls in main memory whose scores float32 can hold; what it does not take,
:mod:`rootdk.engines.blocked` computes with the library of the arrays.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import numpy as np

from rootdk._lib.arrays import Array, float_info, is_torch, to_numpy
from rootdk.engines.call import Call, UnfitError
from rootdk.engines.fill import empty_states, update
from rootdk.engines.rownumbers import RowNumbers
from rootdk.engines.workers import Workers, float32_at_least, hired, in_reach
from rootdk.stats.block import HISTOGRAM_BINS, Booleans, Floats, Integers
from rootdk.stats.statistic import BlockStatistic, statistics

WORTH = 2**21
"""Scores from which compiled code earns the time that loading it takes."""

TOGETHER = 2**16
"""Rows, and keys, of all heads whose numbers are held at once, unless one head has more."""

CHUNK = 256
"""Rows that a thread takes at a time, at most."""

LARGEST_ERROR = 2.0**-10
"""Nats that a score may be off by in float32, to first order."""

_HOME = "rootdk.stats.statistics."
_DEVIATIONS = {"score_moments", "within_rows"}
SOFTMAX = {"row_entropy", "row_first_key", "row_jacobian_norm", "row_logsumexp", "row_maximum"}
SOFTMAX |= {"row_samples", "row_squares"}


def fits(call: Call) -> bool:
    """Tell whether compiled code takes a call, as far as can be told from its arguments."""
    scores = call.batch * call.num_heads * len(call.rows) * call.keys
    return (
        scores >= WORTH
        and call.head_dim > 0
        and float_info(call.query).bits <= 32
        and float_info(call.key).bits <= 32
        and all(map(in_reach, (call.query, call.key)))
    )


def measures(name: str) -> bool:
    """Tell whether a statistic reads only numbers of rows, which is all that there is here."""
    kind = statistics()[name]
    return issubclass(kind, BlockStatistic) and kind.__module__.startswith(_HOME)


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
    with hired() as workers:
        for heads in _head_slices(call):
            states = empty_states(names, heads.stop - heads.start)
            for element, part in itertools.product(range(call.batch), _row_slices(call)):
                states = update(states, _block(part, element, heads, wanted, workers, kernels))
            parts.append(states)
    known = statistics()
    stacked = {name: known[name].stack([part[name] for part in parts]) for name in parts[0]}
    rows = min(kernels.rows_together(call.keys), len(call.rows))
    return stacked, f"numba, float32, {rows}×{call.keys}"  # type: ignore[return-value]


def _row_slices(call: Call) -> Iterator[Call]:
    """Yield the call with so many of its rows at a time that their numbers take little room."""
    for start in range(0, len(call.rows), TOGETHER // 4):
        yield replace(call, rows=call.rows[start : start + TOGETHER // 4])


def _head_slices(call: Call) -> Iterator[slice]:
    step = max(TOGETHER // max(len(call.rows), call.keys), 1)
    for start in range(0, call.num_heads, step):
        yield slice(start, min(start + step, call.num_heads))


@dataclass(frozen=True, eq=False, kw_only=True)
class _Keys:
    """The keys of some head as compiled code wants them.

    Attributes
    ----------
    centre : array, shape (head_dim,)
        Their mean.
    laid : array
        They less their mean, in panels.
    count : int
        How many.
    largest : float
        Largest norm of a key less the mean.
    first : bool
        Whether key 0 of the call is among them.
    """

    centre: Floats
    laid: Any
    count: int
    largest: float
    first: bool


@dataclass(frozen=True, eq=False)
class _Source:
    """Where the keys of heads come from: laid out once for all heads that share them."""

    call: Call
    element: int
    workers: Workers
    kernels: ModuleType
    known: dict[tuple[int, int], _Keys] = field(default_factory=dict)

    def of(self, head: int) -> _Keys:
        call = self.call
        padded = call.mask if _is_padding(call) else None
        kv_head = head // call.queries_per_kv_head
        place = (kv_head, 0 if padded is None or padded.shape[1] == 1 else head)
        if place not in self.known:
            key = float32_at_least(call.key[self.element, kv_head])
            shown = None if padded is None else _of(padded, self.element, head)[0]
            self.known[place] = self._laid(key, shown)
        return self.known[place]

    def _laid(self, key: Any, shown: Booleans | None) -> _Keys:
        kernels = self.kernels
        first = shown is None or bool(np.broadcast_to(shown, len(key))[0])
        if shown is not None:
            key = key[np.broadcast_to(shown, len(key))]
        total = np.zeros(key.shape[1])
        kernels.add_up(key, total)
        centre = total / max(len(key), 1)
        whole = np.ones(1, dtype=np.bool_)
        largest = kernels.largest_square(key, centre, whole)
        if not (whole[0] and np.all(np.isfinite(centre))):
            raise UnfitError("an entry of the key is not finite")
        panels = -(-len(key) // kernels.PANEL)
        laid = np.empty(panels * kernels.PANEL * key.shape[1], dtype=np.float32)
        ends = np.linspace(0, panels, self.workers.threads + 1).astype(int).tolist()
        spans = itertools.pairwise(ends)
        list(self.workers.map(lambda span: kernels.lay_out(key, centre, *span, laid), spans))
        return _Keys(
            centre=centre, laid=laid, count=len(key), largest=float(np.sqrt(largest)), first=first
        )


def _block(
    call: Call, element: int, heads: slice, wanted: int, workers: Workers, kernels: ModuleType
) -> RowNumbers:
    many, rows = heads.stop - heads.start, len(call.rows)
    numbers = np.zeros((many, rows, len(kernels.NUMBERS)))
    counts = np.zeros((many, rows, 2), dtype=np.int64)
    bins = np.zeros((many, HISTOGRAM_BINS), dtype=np.int64)
    source = _Source(call, element, workers, kernels)
    for place, head in enumerate(range(heads.start, heads.stop)):
        bins[place] = _measure(
            source, head, wanted, numbers[place], counts[place], _queries(call, element, head)
        )
    return RowNumbers(
        columns={name: numbers[..., at] for at, name in enumerate(kernels.NUMBERS)},
        visible_keys=counts[..., 0],
        priorities=counts[..., 1],
        histogram=bins,
        gaps=lambda head, row: _gaps(source, heads.start + head, row),
    )


def _measure(
    source: _Source, head: int, wanted: int, numbers: Floats, counts: Integers, query: Any
) -> Integers:
    """Measure one head; return its histogram."""
    call, kernels, keys = source.call, source.kernels, source.of(head)
    whole = np.ones(1, dtype=np.bool_)
    # Of many rows, a copy would cost more than looking at all.
    sampled = query if 4 * len(call.rows) >= call.queries else query[call.rows]
    largest = kernels.largest_square(sampled, np.zeros(query.shape[1]), whole)
    size = abs(call.scale) * float(np.sqrt(largest)) * keys.largest
    error = float_info("float32").eps * size
    if not (whole[0] and error <= LARGEST_ERROR):
        raise UnfitError("scores are too large for float32")
    first, past = _reach(call, keys)
    mask, bias = _hidden(call, source.element, head)
    chunk = min(max(len(call.rows) // (2 * source.workers.threads), kernels.ROWS), CHUNK)

    def measure(start: int) -> tuple[Integers, bool]:
        stop = min(start + chunk, len(call.rows))
        bias_from, added = _bias_rows(bias, call.rows[start:stop], call.keys)
        found = np.zeros(HISTOGRAM_BINS, dtype=np.int64)
        sound = kernels.measure_rows(
            *(query, call.rows, start, stop, call.scale, keys.centre, keys.laid, keys.count),
            *(first, past, mask, added, bias_from, keys.first, call.softcap or 0.0, 4.0 * error),
            *(wanted, numbers, counts, found),
        )
        return found, sound

    parts = list(source.workers.map(measure, range(0, len(call.rows), chunk)))
    if not all(sound for _, sound in parts):
        raise UnfitError("a bias is not finite")
    return np.sum([found for found, _ in parts], axis=0)  # type: ignore[no-any-return]


def _is_padding(call: Call) -> bool:
    """Tell whether the mask hides the same keys from all rows, and nothing else hides any."""
    mask = call.mask
    return mask is not None and mask.shape[2] == 1 and call.bias is None and not call.ordered


def _reach(call: Call, keys: _Keys) -> tuple[Integers, Integers]:
    first, past = call.reach(call.rows)
    return first, np.minimum(past, keys.count)


def _hidden(call: Call, element: int, head: int) -> tuple[Booleans, Any]:
    """Return mask and bias of a head, (queries, keys), each empty if there is none."""
    shape = (call.queries, call.keys)
    mask, bias = np.zeros((0, 0), dtype=np.bool_), np.zeros((0, 0), dtype=np.float32)
    if call.mask is not None and not _is_padding(call):
        mask = np.broadcast_to(to_numpy(_of(call.mask, element, head)), shape)
    if call.bias is not None:
        part = _of(call.bias, element, head)
        if float_info(part).bits == 16:
            return mask, part
        bias = np.broadcast_to(to_numpy(part), shape)
    return mask, bias


def _bias_rows(bias: Any, rows: Integers, keys: int) -> tuple[int, Any]:
    """Return the first row of a bias and its values; half types are converted row by row."""
    if float_info(bias).bits > 16:
        return 0, bias
    start, stop = int(rows[0]), int(rows[-1]) + 1
    part = bias if bias.shape[0] == 1 else bias[start:stop]
    return start, np.broadcast_to(float32_at_least(part), (stop - start, keys))


def _of(array: Array, element: int, head: int) -> Any:
    """Return what a broadcast (batch, num_heads, queries, keys) array says of one head."""
    part = array[element if array.shape[0] > 1 else 0][head if array.shape[1] > 1 else 0]
    return part if is_torch(part) else to_numpy(part)


def _queries(call: Call, element: int, head: int) -> Any:
    return float32_at_least(call.query[element, head])


def _gaps(source: _Source, head: int, row: int) -> Floats:
    """Return the final scores of a row's visible keys less the largest of them."""
    call, keys, kernels = source.call, source.of(head), source.kernels
    at = int(call.rows[row])
    entries = _queries(call, source.element, head)[at].astype(np.float64)
    first, past = (int(ends[row]) for ends in _reach(call, keys))
    found = np.empty(keys.count, dtype=np.float32)
    kernels.scores_of((entries * call.scale).astype(np.float32), keys.laid, found)
    scores = found[first:past].astype(np.float64)
    mask, bias = _hidden(call, source.element, head)
    seen = mask[at, first:past] if mask.size else np.ones(past - first, dtype=np.bool_)
    if call.softcap is not None:
        scores = scores + call.scale * float(np.dot(entries, keys.centre))
        scores = call.softcap * np.tanh(scores / call.softcap)
    start, added = _bias_rows(bias, np.asarray([at]), call.keys)
    if added.size:
        of_row = added[at - start, first:past].astype(np.float64)
        seen = seen & (of_row > -np.inf)
        highest = np.max(of_row[seen], initial=-np.inf)
        scores = scores + (of_row - highest)
    scores = scores[seen]
    return np.asarray(scores - np.max(scores, initial=-np.inf))
