"""The norms of the rows' softmax Jacobians."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from rootdk.stats.block import Block, count, total
from rootdk.stats.statistic import BlockStatistic, Count, Total


@dataclass(frozen=True, eq=False)
class RowJacobianNorm(BlockStatistic):
    """Sum, over rows with two or more visible keys, of the Frobenius norm of the Jacobian."""

    name = "row_jacobian_norm"

    rows: Count
    norm: Total
    norm_squared: Total

    @classmethod
    def of(cls, block: Block) -> Self:
        """Return the state of one block of rows."""
        return cls(
            rows=count(block.plural),
            norm=total(block.jacobian_norm, block.plural),
            norm_squared=total(block.jacobian_norm**2, block.plural),
        )
