"""The largest score."""

from __future__ import annotations

import numpy as np

from rootdk.stats.block import Floats
from rootdk.stats.definition import Head
from rootdk.stats.quantity import quantity
from rootdk.stats.statistics.extremes import Extremes


def _definition(head: Head) -> float:
    return float(np.max(head.visible_scores)) if head.visible_scores.size else float("nan")


@quantity(unit="nats", stage="scaled", definition=_definition, bound_when_sampled="lower")
def max_score(extremes: Extremes) -> Floats:
    r"""Return the largest visible scaled score.

    .. math:: \max s

    Over the :math:`n` visible, finite scores :math:`s = scale \cdot q \cdot k` of the head.

    Returns
    -------
    array of float64, shape (num_heads,)
        Unit: nats. NaN without a visible score.

    References
    ----------
    Dehghani et al. 2023, "Scaling Vision Transformers to 22 Billion Parameters", section 2
    (growth of the attention logits).
    """
    return np.where(extremes.least <= extremes.greatest, extremes.greatest, np.nan)
