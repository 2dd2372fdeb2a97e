"""The normaliser of the softmax."""

from __future__ import annotations

import math

import numpy as np

from rootdk.stats.block import Floats
from rootdk.stats.definition import Head, Row
from rootdk.stats.quantity import quantity
from rootdk.stats.statistic import per
from rootdk.stats.statistics.row_logsumexp import RowLogsumexp


def _definition(head: Head) -> float:
    def logsumexp(row: Row) -> float:
        top = float(np.max(row.final))
        return top + math.log(float(np.sum(np.exp(row.final - top))))

    return head.row_mean(logsumexp, at_least=1)


@quantity(unit="nats", stage="biased", definition=_definition, row_mean="row_logsumexp.logsumexp")
def logsumexp(row_logsumexp: RowLogsumexp) -> Floats:
    r"""Return the logarithm of the sum of exp over the visible final scores, mean over rows.

    .. math:: \log \sum_j e^{s_j}

    Mean over rows with one or more visible keys and finite scores.

    Returns
    -------
    array of float64, shape (num_heads,)
        Unit: nats. NaN without such a row.
    """
    return per(row_logsumexp.logsumexp, row_logsumexp.rows)
