"""How evenly the rows attend."""

from __future__ import annotations

import numpy as np

from rootdk.stats.block import Floats
from rootdk.stats.definition import Head, xlogx
from rootdk.stats.quantity import quantity
from rootdk.stats.statistic import per
from rootdk.stats.statistics.row_entropy import RowEntropy


def _definition(head: Head) -> float:
    return head.row_mean(lambda row: float(-np.sum(xlogx(row.weights))))


@quantity(unit="nats", stage="weights", definition=_definition, row_mean="row_entropy.entropy")
def entropy_nats(row_entropy: RowEntropy) -> Floats:
    r"""Return the entropy of the weights of a row, mean over rows.

    .. math:: H = -\sum_j w_j \log w_j

    Mean over rows with two or more visible keys and finite scores.

    Returns
    -------
    array of float64, shape (num_heads,)
        Unit: nats. NaN without a row of two or more visible keys.

    References
    ----------
    Shannon 1948, "A Mathematical Theory of Communication", section 6.
    """
    return per(row_entropy.entropy, row_entropy.rows)
