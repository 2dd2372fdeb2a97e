"""The squared weights of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from rootdk.stats.block import Block, count, total
from rootdk.stats.statistic import BlockStatistic, Count, Total


@dataclass(frozen=True, eq=False)
class RowSquares(BlockStatistic):
    """Over rows with two or more visible keys: 1/Σw², 1 − Σw², and their squares."""

    name = "row_squares"

    rows: Count
    effective_keys: Total
    trace: Total
    effective_keys_squared: Total
    trace_squared: Total

    @classmethod
    def of(cls, block: Block) -> Self:
        """Return the state of one block of rows."""
        plural = block.plural
        squares = np.where(plural, block.sum_squares, 1.0)
        return cls(
            rows=count(plural),
            effective_keys=total(1.0 / squares, plural),
            trace=total(block.sum_squares_complement, plural),
            effective_keys_squared=total(1.0 / squares**2, plural),
            trace_squared=total(block.sum_squares_complement**2, plural),
        )
