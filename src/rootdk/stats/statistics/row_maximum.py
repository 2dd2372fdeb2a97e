"""The largest weights of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from rootdk.stats.block import Block, count, total
from rootdk.stats.statistic import BlockStatistic, Count, Total


@dataclass(frozen=True, eq=False)
class RowMaximum(BlockStatistic):
    """Over rows with two or more visible keys: the largest weight w, w(1 − w), and squares."""

    name = "row_maximum"

    rows: Count
    max_weight: Total
    over_50: Count
    over_90: Count
    over_99: Count
    jacobian: Total
    max_weight_squared: Total
    jacobian_squared: Total

    @classmethod
    def of(cls, block: Block) -> Self:
        """Return the state of one block of rows."""
        plural = block.plural
        weight = np.where(plural, block.max_weight, 0.0)
        complement = np.where(plural, block.max_weight_complement, 1.0)
        return cls(
            rows=count(plural),
            max_weight=total(weight, plural),
            over_50=count(plural & (weight > 0.50)),
            over_90=count(plural & (weight > 0.90)),
            over_99=count(plural & (weight > 0.99)),
            jacobian=total(weight * complement, plural),
            max_weight_squared=total(weight**2, plural),
            jacobian_squared=total((weight * complement) ** 2, plural),
        )
