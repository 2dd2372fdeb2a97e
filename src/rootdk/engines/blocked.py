"""The blocked engine: every quantity, a block of rows at a time, in a few MiB.

Products run in float32 for inputs of at most float32, unless the scores could then be off
by more than :data:`rootdk.engines.operands.LARGEST_ERROR`; everything that is summed over rows
is summed in float64. Without compiled code, rows whose scores are finite and end as they begin
(no bias, no cap) are those of :mod:`rootdk.engines.flatrows`; others are :class:`RowBlock`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from rootdk.engines import compiled, flatrows
from rootdk.engines.call import Call, UnfitError
from rootdk.engines.fill import Filled, empty_states, update
from rootdk.engines.flatrows import FlatRows, Memory, Wanted
from rootdk.engines.kernels import kernels_of
from rootdk.engines.operands import Operands, block_of, operands_of
from rootdk.engines.rowblock import RowBlock
from rootdk.engines.rownumbers import SOFTMAX, RowNumbers, of_rows
from rootdk.stats.block import Block
from rootdk.stats.statistic import BlockStatistic, Statistic, statistics

TILE = 2**19
"""Scores in one block, unless a single row has more."""

FLAT_TILE = 2**20
"""The same where steps write over two pieces of memory."""

TOGETHER = 2**14
"""Rows of all heads whose numbers are held at once."""


def refusal(call: Call, names: set[str]) -> str | None:
    """Return why the engine cannot measure this; it always can."""
    return None


def run(call: Call, names: set[str]) -> Filled:
    """Measure the named statistics of a call."""
    if compiled.fits(call):
        try:
            return _run_compiled(call, names)
        except UnfitError:
            pass
    states, engine = _run_plain(call, names)
    return Filled(states=states, engine=f"blocked ({engine})")


def _run_compiled(call: Call, names: set[str]) -> Filled:
    known = {name for name in empty_states(names, 0) if of_rows(name)}
    found, engine = compiled.run(call, known)
    states: dict[str, Statistic] = dict(found)
    others = set(empty_states(names, 0)) - known
    if others:
        more, beside = _run_plain(call, others)
        states |= more
        engine += f"; {', '.join(sorted(others))} beside it: {beside}"
    return Filled(states=states, engine=f"blocked ({engine})")


def _run_plain(call: Call, names: set[str]) -> tuple[dict[str, Statistic], str]:
    """Return the named statistics, and what ran, with nothing but the library of the arrays."""
    call = _with_a_key(call)
    parts: list[dict[str, BlockStatistic]] = []
    used: set[str] = set()
    largest = (0, 0)
    memory = Memory(kernels_of(call.query))
    for heads in _head_slices(call):
        states = empty_states(names, heads.stop - heads.start)
        for element in range(call.batch):
            operands = operands_of(call, element, heads)
            used.add(operands.arithmetic)
            flat = set(filter(of_rows, names)) if flatrows.fits(call, operands) else set()
            quick = _updated(states, flat, _flat_blocks(call, operands, flat, memory))
            states |= quick | _updated(states, names - flat, _blocks(call, operands))
            tile = FLAT_TILE if flat else TILE
            rows = min(_step(call, operands, tile), len(call.rows))
            largest = max(largest, (rows, call.keys))
        parts.append(states)
    known = statistics()
    stacked = {
        name: known[name].stack([part[name] for part in parts])
        for name in empty_states(names, 0)
        if parts
    }
    precision = " and ".join(sorted(used)) or "nothing to compute"
    engine = f"{call.library}, {precision}, {largest[0]}×{largest[1]}"
    return stacked or dict(empty_states(names, call.num_heads)), engine


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


def _head_slices(call: Call) -> Iterator[slice]:
    """Yield ranges of heads: as many at once as let all their scores fit into one block."""
    of_head = max(len(call.rows) * call.keys, 1)
    together = min(max(TILE // of_head, 1), max(call.num_heads, 1))
    for start in range(0, call.num_heads, together):
        yield slice(start, min(start + together, call.num_heads))


def _step(call: Call, operands: Operands, scores: int) -> int:
    """Return how many rows make a block of so many scores."""
    heads = operands.heads.stop - operands.heads.start
    return int(max(scores // max(heads * call.keys, 1), 1))


def _updated(
    states: dict[str, BlockStatistic], names: set[str], blocks: Iterable[Block]
) -> dict[str, BlockStatistic]:
    """Return the named states with more blocks."""
    chosen = {name: state for name, state in states.items() if name in names}
    for block in blocks if chosen else ():
        chosen = update(chosen, block)
    return chosen


def _flat_blocks(
    call: Call, operands: Operands, names: set[str], memory: Memory
) -> Iterator[RowNumbers]:
    wanted = Wanted(
        histogram="score_histogram" in names,
        softmax=bool(names & SOFTMAX),
        priorities="row_samples" in names,
    )
    flat = FlatRows(call, operands, wanted, memory)
    step = _step(call, operands, FLAT_TILE)
    many = max(TOGETHER // max(operands.heads.stop - operands.heads.start, 1), 1)
    for start in range(0, len(call.rows), many):
        yield flat.measure(call.rows[start : start + many], step)


def _blocks(call: Call, operands: Operands) -> Iterator[RowBlock]:
    step = _step(call, operands, TILE)
    for start in range(0, len(call.rows), step):
        yield block_of(call, operands, call.rows[start : start + step])
