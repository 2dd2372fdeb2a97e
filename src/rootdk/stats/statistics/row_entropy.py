"""The entropies of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from rootdk.stats.block import Block, count, total
from rootdk.stats.statistic import BlockStatistic, Count, Total


@dataclass(frozen=True, eq=False)
class RowEntropy(BlockStatistic):
    """Sums over rows with two or more visible keys: entropy, share, exponential, squares."""

    name = "row_entropy"

    rows: Count
    entropy: Total
    share: Total
    effective_keys: Total
    entropy_squared: Total
    share_squared: Total
    effective_keys_squared: Total

    @classmethod
    def of(cls, block: Block) -> Self:
        """Return the state of one block of rows."""
        plural = block.plural
        entropy = np.where(plural, block.entropy, 0.0)
        share = entropy / np.log(np.where(plural, block.visible_keys, 2))
        keys = np.exp(entropy)
        return cls(
            rows=count(plural),
            entropy=total(entropy, plural),
            share=total(share, plural),
            effective_keys=total(keys, plural),
            entropy_squared=total(entropy**2, plural),
            share_squared=total(share**2, plural),
            effective_keys_squared=total(keys**2, plural),
        )
