"""How far the scores are spread: the number that 1/√head_dim is there to hold at 1."""

from __future__ import annotations

import numpy as np

from rootdk.stats.block import Floats
from rootdk.stats.definition import Head
from rootdk.stats.quantity import quantity
from rootdk.stats.statistics.score_moments import ScoreMoments


def _definition(head: Head) -> float:
    return float(np.std(head.visible_scores)) if head.visible_scores.size else float("nan")


@quantity(unit="nats", stage="scaled", definition=_definition)
def spread(score_moments: ScoreMoments) -> Floats:
    r"""Return the standard deviation of all visible scaled scores, with ddof 0.

    .. math:: \sqrt{\frac1n \sum (s - \bar s)^2}

    Over the :math:`n` visible, finite scores :math:`s = scale \cdot q \cdot k` of the head.
    Entries of unit variance give :math:`scale \cdot \sqrt{head\_dim}`, which is 1 for the
    standard scale.

    Returns
    -------
    array of float64, shape (num_heads,)
        Unit: nats. NaN without a visible score.

    References
    ----------
    Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1, footnote 4.
    """
    return score_moments.std
