"""Where the scores are centred."""

from __future__ import annotations

import numpy as np

from rootdk.stats.block import Floats
from rootdk.stats.definition import Head
from rootdk.stats.quantity import quantity
from rootdk.stats.statistics.score_moments import ScoreMoments


def _definition(head: Head) -> float:
    return float(np.mean(head.visible_scores)) if head.visible_scores.size else float("nan")


@quantity(unit="nats", stage="scaled", definition=_definition)
def score_mean(score_moments: ScoreMoments) -> Floats:
    r"""Return the mean of the visible scaled scores.

    .. math:: \bar s = \frac1n \sum s

    Over the :math:`n` visible, finite scores :math:`s = scale \cdot q \cdot k` of the head.

    Returns
    -------
    array of float64, shape (num_heads,)
        Unit: nats. NaN without a visible score.
    """
    return score_moments.average
