"""The shape of the scores within their rows."""

from __future__ import annotations

import numpy as np

from rootdk.stats.block import HISTOGRAM_BINS, HISTOGRAM_REACH, Floats
from rootdk.stats.definition import Head
from rootdk.stats.quantity import quantity
from rootdk.stats.statistics.score_histogram import ScoreHistogram


def _definition(head: Head) -> object:
    counts = np.zeros(HISTOGRAM_BINS)
    for row, visible in zip(head.scores, head.visible, strict=True):
        scores = row[visible & np.isfinite(row)]
        if scores.size and np.std(scores) > 1e-12 * np.max(np.abs(scores)):
            standard = (scores - np.mean(scores)) / np.std(scores)
            inside = np.clip(standard, -HISTOGRAM_REACH, np.nextafter(HISTOGRAM_REACH, 0))
            edges = np.linspace(-HISTOGRAM_REACH, HISTOGRAM_REACH, HISTOGRAM_BINS + 1)
            counts += np.histogram(inside, edges)[0]
    return counts


@quantity(unit="scores", stage="scaled", definition=_definition, per_head="histogram")
def score_histogram(score_histogram: ScoreHistogram) -> Floats:
    r"""Return the number of scores in each of 64 bins of standardised score, from −8 to 8.

    .. math:: \text{bin } \lfloor 4 z \rfloor + 32, \qquad z = (s_{ij} - \bar s_i) / \sigma_i

    Each row is divided by its own standard deviation :math:`\sigma_i`, so that histograms of
    different rows, batches and processes add up exactly. Rows with :math:`\sigma_i = 0`, up to
    rounding, add nothing; values beyond ±8 count in the outermost bins.

    Returns
    -------
    array of float64, shape (num_heads, 64)
        Unit: scores. All 0 without a score that counts.
    """
    return score_histogram.bins.astype(np.float64)
