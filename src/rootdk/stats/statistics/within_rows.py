"""Squared deviations of the scaled scores from the mean of their own row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from rootdk.stats.block import Block
from rootdk.stats.statistic import BlockStatistic, Count, Total


@dataclass(frozen=True, eq=False)
class WithinRows(BlockStatistic):
    """Visible, finite scaled scores, and their squared deviations from their row's mean."""

    name = "within_rows"

    count: Count
    m2: Total

    @classmethod
    def of(cls, block: Block) -> Self:
        """Return the state of one block of rows."""
        return cls(count=np.sum(block.finite_scores, axis=1), m2=np.sum(block.score_m2, axis=1))
