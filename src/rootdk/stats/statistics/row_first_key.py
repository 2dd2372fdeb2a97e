"""The weight of key 0 in the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from rootdk.stats.block import Block, count, total
from rootdk.stats.statistic import BlockStatistic, Count, Total


@dataclass(frozen=True, eq=False)
class RowFirstKey(BlockStatistic):
    """Sum of the weight of key 0, and of its square, over rows with two or more visible keys."""

    name = "row_first_key"

    rows: Count
    weight: Total
    weight_squared: Total

    @classmethod
    def of(cls, block: Block) -> Self:
        """Return the state of one block of rows."""
        return cls(
            rows=count(block.plural),
            weight=total(block.first_key_weight, block.plural),
            weight_squared=total(block.first_key_weight**2, block.plural),
        )
