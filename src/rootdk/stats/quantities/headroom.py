"""How much larger the scores could grow before their dtype overflows."""

from __future__ import annotations

import numpy as np

from rootdk.stats.block import Floats
from rootdk.stats.definition import Head
from rootdk.stats.quantity import quantity
from rootdk.stats.statistics.extremes import Extremes


def _definition(head: Head) -> float:
    if not head.visible_scores.size:
        return float("nan")
    magnitude = float(np.max(np.abs(head.visible_scores)))
    return head.largest_score / magnitude if magnitude > 0 else float("inf")


@quantity(unit="1", stage="scaled", definition=_definition, bound_when_sampled="upper")
def headroom(extremes: Extremes, largest_score: float) -> Floats:
    r"""Return the largest finite value of the scores' dtype over the largest absolute scaled score.

    .. math:: \frac{\text{largest finite value}}{\max |s|}

    Under 1, the scores overflow in that dtype; rootdk itself computes them in more precision.

    Returns
    -------
    array of float64, shape (num_heads,)
        Unit: 1. NaN without a visible score. ∞ if all scores are 0.
    """
    magnitude = np.maximum(np.abs(extremes.least), np.abs(extremes.greatest))
    room = np.where(magnitude > 0, largest_score / np.where(magnitude > 0, magnitude, 1.0), np.inf)
    return np.where(extremes.least <= extremes.greatest, room, np.nan)
