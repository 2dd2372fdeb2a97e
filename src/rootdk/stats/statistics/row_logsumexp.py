"""The normalisers of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from rootdk.stats.block import Block, count, total
from rootdk.stats.statistic import BlockStatistic, Count, Total


@dataclass(frozen=True, eq=False)
class RowLogsumexp(BlockStatistic):
    """Sum of the logsumexp, and of its square, over rows with at least one visible key."""

    name = "row_logsumexp"

    rows: Count
    logsumexp: Total
    logsumexp_squared: Total

    @classmethod
    def of(cls, block: Block) -> Self:
        """Return the state of one block of rows."""
        return cls(
            rows=count(block.settled),
            logsumexp=total(block.logsumexp, block.settled),
            logsumexp_squared=total(block.logsumexp**2, block.settled),
        )
