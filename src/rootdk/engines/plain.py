"""Every quantity, a block of rows at a time, with nothing but the library of the arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import NamedTuple

from rootdk.engines import flatrows
from rootdk.engines.call import Call
from rootdk.engines.fill import empty_states, grown, of_blocks
from rootdk.engines.flatrows import FlatRows, Wanted
from rootdk.engines.flatsums import Memory
from rootdk.engines.lanes import Lanes, lanes_for
from rootdk.engines.operands import Operands, block_of, operands_of
from rootdk.engines.rowblock import RowBlock
from rootdk.engines.rownumbers import SOFTMAX, RowNumbers, of_rows
from rootdk.stats.block import Block
from rootdk.stats.statistic import BlockStatistic, Statistic

TILE = 2**19
"""Scores in one block, unless a single row has more."""

FLAT_TILE = 2**20
"""The same where steps write over two pieces of memory, which two threads may have each."""

ORDERED = 256
"""Most rows in a block where they see different keys."""

ORDERED_LEAST = 128
"""Rows that a block of several heads has at least where they see different keys.

Blocks where few keys are seen are the fuller for it, and so fewer; products of fewer rows are slow.
"""

TOGETHER = 2**14
"""Rows of all heads whose numbers are held at once."""

ENTRIES = 2**12
"""Rows of all heads whose queries one thread holds in float64."""


class _Done(NamedTuple):
    """What is known of some heads of one batch element, and how it was found."""

    states: dict[str, BlockStatistic]
    arithmetics: set[str]
    rows: int


def run(call: Call, names: set[str]) -> tuple[dict[str, Statistic], str]:
    """Return the named statistics, and what ran, with nothing but the library of the arrays."""
    call = _with_a_key(call)
    with lanes_for(call) as lanes:
        lots = list(_head_slices(call, lanes.count))
        # Whole heads to a lane where there are enough of them, and rows of one otherwise.
        by_head = len(lots) * call.batch >= 2 * lanes.count
        outer, inner = (lanes, lanes.alone) if by_head else (lanes.alone, lanes)
        tile = max(2 * FLAT_TILE // max(lanes.count, 2), 1)
        work = _Work(call, names, inner, tile, Memory(lanes.kernels, min(tile, call.scores)))
        groups = _groups(call, lots, outer.count)
        tasks = [(group, element) for group in groups for element in range(call.batch)]
        done = list(outer.map(work.measure, tasks))
    if not done:
        return dict(empty_states(names, call.num_heads)), f"{call.library}, nothing to compute"
    starts = range(0, len(done), call.batch)
    parts = [reduce(_merged, (each.states for each in done[at:][: call.batch])) for at in starts]
    precision = " and ".join(sorted(set().union(*(each.arithmetics for each in done))))
    engine = f"{call.library}, {precision}, {max(each.rows for each in done)}×{call.keys}"
    return dict(_beside(parts)), engine


def _beside(parts: Sequence[dict[str, BlockStatistic]]) -> dict[str, BlockStatistic]:
    """Return states of different heads as one of each name."""
    known = of_blocks(set(parts[0]))
    return {name: kind.stack([part[name] for part in parts]) for name, kind in known.items()}


def _merged(
    mine: dict[str, BlockStatistic], theirs: dict[str, BlockStatistic]
) -> dict[str, BlockStatistic]:
    return {name: state.merge(theirs[name]) for name, state in mine.items()}


@dataclass(frozen=True, eq=False)
class _Work:
    """A call, measured some heads of one batch element at a time.

    Attributes
    ----------
    call, names
        What to measure.
    lanes : Lanes
        Threads that share the rows.
    tile : int
        Scores that one of them measures at once where rows are flat.
    memory : Memory
        Where it does so.
    """

    call: Call
    names: set[str]
    lanes: Lanes
    tile: int
    memory: Memory

    def measure(self, place: tuple[Sequence[slice], int]) -> _Done:
        """Return what is known of some heads of a batch element, given in lots."""
        lots, element = place
        call, names = self.call, set(of_blocks(self.names))
        operands = [operands_of(call, element, heads) for heads in lots]
        fit = all(flatrows.fits(call, each) for each in operands)
        if not fit and len(lots) > 1:
            done = [self.measure(([heads], element)) for heads in lots]
            return _Done(
                _beside([each.states for each in done]),
                set().union(*(each.arithmetics for each in done)),
                max(each.rows for each in done),
            )
        heads = sum(each.num_heads for each in operands)
        flat = set(filter(of_rows, names)) if fit else set[str]()
        # Few statistics of many heads take less time than many of a few.
        numbers = zip(*(self._flat(each, flat) for each in operands), strict=True)
        states = _filled(flat, map(RowNumbers.beside, numbers), heads)
        blocks = [_filled(names - flat, _blocks(call, each), each.num_heads) for each in operands]
        states |= _beside(blocks)
        rows = _step(call, operands[0], self.tile if fit else TILE)
        return _Done(states, {each.arithmetic for each in operands}, min(rows, len(call.rows)))

    def _flat(self, operands: Operands, names: set[str]) -> Iterator[RowNumbers]:
        """Yield flat rows, in order."""
        wanted = Wanted(
            histogram="score_histogram" in names,
            softmax=bool(names & SOFTMAX),
            priorities="row_samples" in names,
        )
        flat = FlatRows(self.call, operands, wanted, self.memory)
        rows, heads = self.call.rows, max(operands.num_heads, 1)
        step = _step(self.call, operands, self.tile)
        if _differs(self.call):  # as many as fit, since each sees few keys or many
            step = max(min(self.tile // heads, ORDERED), 1)
        many = max(TOGETHER // heads, 1)
        for start in range(0, len(rows), many):
            some = rows[start : start + many]
            task = len(some)
            if self.lanes.count > 1:
                # Several for each lane, since some see fewer keys than others.
                task = max(-(-task // (4 * self.lanes.count)), min(step // 2, task), 1)
            task = min(task, max(ENTRIES // heads, step))
            tasks = [some[at : at + task] for at in range(0, len(some), task)]
            measure = partial(flat.measure, step=min(step, task), room=self.tile)
            parts = list(self.lanes.map(measure, tasks))
            yield flat.together(some, parts)


def _with_a_key(call: Call) -> Call:
    """Return the call, with one invisible key if it has none, so that no row is of size 0."""
    if call.keys:
        return call
    like = call.query.reshape(-1)[:0]
    batch, kv_heads, _, head_dim = call.key.shape
    key = call.xp.zeros((batch, kv_heads, 1, head_dim), dtype=like.dtype, device=like.device)
    hidden = call.xp.zeros((1, 1, 1, 1), dtype=call.xp.bool, device=like.device)
    return replace(
        call, key=key, mask=hidden, bias=None, causal=None, window=(None, None), segments=None
    )


def _head_slices(call: Call, lanes: int) -> Iterator[slice]:
    """Yield ranges of heads: as many at once as let all their scores fit into one block.

    Or, where rows see different keys, as let blocks have enough rows, and lanes enough to do.
    """
    together = TILE // max(len(call.rows) * call.keys, 1)
    if _differs(call):
        of_lane = call.batch * call.num_heads // (2 * lanes)
        together = max(together, min(FLAT_TILE // (ORDERED_LEAST * call.keys), of_lane))
    together = min(max(together, 1), max(call.num_heads, 1))
    for start in range(0, call.num_heads, together):
        yield slice(start, min(start + together, call.num_heads))


def _differs(call: Call) -> bool:
    """Tell whether rows see different keys."""
    return call.ordered or (call.mask is not None and call.mask.shape[2] > 1)


def _groups(call: Call, lots: Sequence[slice], lanes: int) -> Iterator[Sequence[slice]]:
    """Yield lots of heads whose numbers are few enough to be held at once, as many to each lane."""
    many = max(len(call.rows), call.keys, 1)
    of_lot = (lots[0].stop - lots[0].start) * many if lots else 1
    together = max(TOGETHER // of_lot, 1)
    rounds = -(-len(lots) // (together * lanes))
    each = max(-(-len(lots) // max(rounds * lanes, 1)), 1)
    for start in range(0, len(lots), each):
        yield lots[start : start + each]


def _step(call: Call, operands: Operands, scores: int) -> int:
    """Return how many rows make a block of so many scores."""
    return int(max(scores // max(operands.num_heads * call.keys, 1), 1))


def _filled(names: set[str], blocks: Iterable[Block], num_heads: int) -> dict[str, BlockStatistic]:
    """Return the named states of blocks of some heads."""
    states: dict[str, BlockStatistic] = {}
    for block in blocks if names else ():
        states = grown(states, names, block)
    return states or empty_states(names, num_heads)


def _blocks(call: Call, operands: Operands) -> Iterator[RowBlock]:
    step = _step(call, operands, TILE)
    for start in range(0, len(call.rows), step):
        yield block_of(call, operands, call.rows[start : start + step])
