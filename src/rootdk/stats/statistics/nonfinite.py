"""How much is not finite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from rootdk.stats.block import Block, count
from rootdk.stats.statistic import BlockStatistic, Count


@dataclass(frozen=True, eq=False)
class Nonfinite(BlockStatistic):
    """Visible scaled scores that are not finite, and rows whose softmax they undo.

    A row counts when one of its visible *final* scores is NaN or infinite, which a bias
    can cause as well as a score.
    """

    name = "nonfinite"

    scores: Count
    rows: Count

    @classmethod
    def of(cls, block: Block) -> Self:
        """Return the state of one block of rows."""
        missing = block.visible_keys - block.finite_scores
        return cls(scores=np.sum(missing, axis=1), rows=count(~block.finite))
