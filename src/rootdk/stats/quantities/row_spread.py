"""How far the scores are spread within their rows, which is all that a softmax sees."""

from __future__ import annotations

import numpy as np

from rootdk.stats.block import Floats
from rootdk.stats.definition import Head
from rootdk.stats.quantity import quantity
from rootdk.stats.statistic import per
from rootdk.stats.statistics.within_rows import WithinRows


def _definition(head: Head) -> float:
    rows = zip(head.scores, head.visible, strict=True)
    seen = [row[visible & np.isfinite(row)] for row, visible in rows]
    squares = [np.sum((scores - np.mean(scores)) ** 2) for scores in seen if scores.size]
    count = sum(scores.size for scores in seen)
    return float(np.sqrt(np.sum(squares) / count)) if count else float("nan")


@quantity(unit="nats", stage="scaled", definition=_definition)
def row_spread(within_rows: WithinRows) -> Floats:
    r"""Return the standard deviation of the visible scaled scores about their row means, pooled.

    .. math:: \sqrt{\frac1n \sum_i \sum_j (s_{ij} - \bar s_i)^2}

    Over the :math:`n` visible, finite scores :math:`s = scale \cdot q \cdot k` of the head.
    A term that is the same for all keys of a row changes no weight and not this number.

    Returns
    -------
    array of float64, shape (num_heads,)
        Unit: nats. NaN without a visible score.
    """
    return np.sqrt(per(within_rows.m2, within_rows.count))
