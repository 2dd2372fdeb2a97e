"""The shape of the scores within their rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from rootdk.stats.block import Block
from rootdk.stats.statistic import Bins, BlockStatistic


@dataclass(frozen=True, eq=False)
class ScoreHistogram(BlockStatistic):
    """Scores standardised within their own row, by bin.

    Each row is centred on its own mean and divided by *its own* standard deviation. A
    scale common to several rows would be known only after all of them, and states that
    were filled under different scales could not be merged; so the law that the histogram
    of two lots of rows is the sum of their histograms holds exactly. It also shows the
    shape that one softmax sees: given its query, a row of Gaussian keys is Gaussian, while
    rows of different spread pooled are not.

    Rows whose standard deviation is 0, single-key rows among them, have no shape and add
    nothing. Values beyond the outermost bin count in it.
    """

    name = "score_histogram"

    bins: Bins

    @classmethod
    def of(cls, block: Block) -> Self:
        """Return the state of one block of rows."""
        return cls(bins=block.histogram)
