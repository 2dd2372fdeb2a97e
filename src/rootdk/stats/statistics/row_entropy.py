"""The entropies of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from rootdk.stats.block import Block, count, total
from rootdk.stats.statistic import BlockStatistic, Count, Total


@dataclass(frozen=True, eq=False)
class RowEntropy(BlockStatistic):
    """Sums over rows with two or more visible keys: entropy, its share, its exponential."""

    name = "row_entropy"

    rows: Count
    entropy: Total
    share: Total
    effective_keys: Total

    @classmethod
    def of(cls, block: Block) -> Self:
        """Return the state of one block of rows."""
        plural = block.plural
        entropy = np.where(plural, block.entropy, 0.0)
        largest = np.log(np.where(plural, block.visible_keys, 2))
        return cls(
            rows=count(plural),
            entropy=total(entropy, plural),
            share=total(entropy / largest, plural),
            effective_keys=total(np.exp(entropy), plural),
        )
