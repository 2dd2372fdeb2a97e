"""Moments of the scaled scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from rootdk.stats.block import Block
from rootdk.stats.statistic import BlockStatistic
from rootdk.stats.statistics._moments import Moments, moments_of_groups


@dataclass(frozen=True, eq=False)
class ScoreMoments(Moments, BlockStatistic):
    """Count, mean and squared deviations of the visible, finite scaled scores."""

    name = "score_moments"

    @classmethod
    def of(cls, block: Block) -> Self:
        """Return the state of one block of rows."""
        count, mean, m2 = moments_of_groups(block.finite_scores, block.score_mean, block.score_m2)
        return cls(count=count, mean=mean, m2=m2)
