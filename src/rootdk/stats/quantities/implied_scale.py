"""The scale that would explain the spread from the entries alone."""

from __future__ import annotations

import math

import numpy as np

from rootdk.stats.block import Floats
from rootdk.stats.definition import Head
from rootdk.stats.quantity import quantity
from rootdk.stats.statistics.key_entries import KeyEntries
from rootdk.stats.statistics.query_entries import QueryEntries
from rootdk.stats.statistics.score_moments import ScoreMoments


def _definition(head: Head) -> float:
    if not head.visible_scores.size:
        return float("nan")
    unscaled = math.sqrt(head.head_dim) * float(np.std(head.query) * np.std(head.key))
    size = math.sqrt(float(np.mean(head.query**2) * np.mean(head.key**2)))
    if not unscaled > 1e-12 * math.sqrt(head.head_dim) * size:
        return float("nan")
    return float(np.std(head.visible_scores)) / unscaled


@quantity(unit="1", stage="scaled", definition=_definition)
def implied_scale(
    score_moments: ScoreMoments, query_entries: QueryEntries, key_entries: KeyEntries, head_dim: int
) -> Floats:
    r"""Return the spread over that of unscaled, independent, centred entries.

    .. math:: \frac{spread}{\sqrt{head\_dim} \cdot query\_std \cdot key\_std}

    The absolute scale itself, if the entries are independent and centred; otherwise, how far
    they are not.

    Returns
    -------
    array of float64, shape (num_heads,)
        Unit: 1. NaN without an entry or a visible score, and where the entries do not vary.
    """
    unscaled = math.sqrt(head_dim) * query_entries.std * key_entries.std
    varies = unscaled > 1e-12 * math.sqrt(head_dim) * query_entries.rms * key_entries.rms
    return np.where(varies, score_moments.std / np.where(varies, unscaled, 1.0), np.nan)
