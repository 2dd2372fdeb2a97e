"""From blocks to states: the one loop that every engine of blocks shares."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rootdk.stats.block import Block
from rootdk.stats.statistic import BlockStatistic, Statistic, statistics


@dataclass(frozen=True, kw_only=True)
class Filled:
    """What an engine returns.

    Attributes
    ----------
    states : mapping of str to Statistic
        The states, by name of the statistic.
    engine : str
        What ran: the engine, the library, the arithmetic, the size of a block.
    """

    states: dict[str, Statistic] = field(default_factory=dict)
    engine: str

    def beside(self, more: Filled) -> Filled:
        """Return this with what ran beside it, for statistics that this lacks."""
        names = ", ".join(sorted(more.states))
        return Filled(
            states=self.states | more.states,
            engine=f"{self.engine}; {names} beside it: {more.engine}",
        )


def fill(blocks: Iterable[Block], names: set[str], engine: str, num_heads: int) -> Filled:
    """Return the named statistics of blocks that all have the same heads."""
    states: dict[str, BlockStatistic] = {}
    for block in blocks:
        states = grown(states, names, block)
    return Filled(states=dict(states or empty_states(names, num_heads)), engine=engine)


def empty_states(names: set[str], num_heads: int) -> dict[str, BlockStatistic]:
    """Return the empty states of those named statistics that are filled from blocks."""
    return {name: kind.empty(num_heads) for name, kind in of_blocks(names).items()}


def of_blocks(names: set[str]) -> dict[str, type[BlockStatistic]]:
    """Return those named statistics that are filled from blocks."""
    known = statistics()
    return {name: kind for name in sorted(names) if issubclass(kind := known[name], BlockStatistic)}


def grown(
    states: dict[str, BlockStatistic], names: set[str], block: Block
) -> dict[str, BlockStatistic]:
    """Return the named statistics with one more block; of no states, it is the first."""
    if states:
        return update(states, block)
    return {name: kind.of(block) for name, kind in of_blocks(names).items()}


def update(states: dict[str, BlockStatistic], block: Block) -> dict[str, BlockStatistic]:
    """Return the states with one more block."""
    return {name: state.update(block) for name, state in states.items()}
