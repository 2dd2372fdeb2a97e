"""How many rows, and of which kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from rootdk.stats.block import Block, count, total
from rootdk.stats.statistic import BlockStatistic, Count


@dataclass(frozen=True, eq=False)
class Counts(BlockStatistic):
    """Rows and visible scores, always measured: they stand behind every other number."""

    name = "counts"

    rows: Count
    visible_scores: Count
    empty_rows: Count
    single_key_rows: Count

    @classmethod
    def of(cls, block: Block) -> Self:
        """Return the state of one block of rows."""
        keys = block.visible_keys
        everything = np.ones_like(keys, dtype=np.bool_)
        return cls(
            rows=count(everything),
            visible_scores=total(keys, everything).astype(np.int64),
            empty_rows=count(keys == 0),
            single_key_rows=count(keys == 1),
        )
