"""Smallest and largest scaled score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from rootdk.stats.block import Block
from rootdk.stats.statistic import BlockStatistic, Greatest, Least


@dataclass(frozen=True, eq=False)
class Extremes(BlockStatistic):
    """Smallest and largest visible, finite scaled score; +∞ and −∞ of none."""

    name = "extremes"

    least: Least
    greatest: Greatest

    @classmethod
    def of(cls, block: Block) -> Self:
        """Return the state of one block of rows."""
        return cls(
            least=np.min(block.score_min, axis=1, initial=np.inf),
            greatest=np.max(block.score_max, axis=1, initial=-np.inf),
        )
