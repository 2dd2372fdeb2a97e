"""How evenly the rows attend, of what they could."""

from __future__ import annotations

import numpy as np

from rootdk.stats.block import Floats
from rootdk.stats.definition import Head, Row, xlogx
from rootdk.stats.quantity import quantity
from rootdk.stats.statistic import per
from rootdk.stats.statistics.row_entropy import RowEntropy


def _definition(head: Head) -> float:
    def share(row: Row) -> float:
        return float(-np.sum(xlogx(row.weights)) / np.log(len(row.weights)))

    return head.row_mean(share)


@quantity(unit="1", stage="weights", definition=_definition, row_mean="row_entropy.share")
def entropy_share(row_entropy: RowEntropy) -> Floats:
    r"""Return the entropy of a row over the logarithm of its visible keys, mean over rows.

    .. math:: \frac{H}{\log n}

    Mean over rows with two or more visible keys and finite scores.
    1 if all visible keys weigh the same, 0 if one takes all.

    Returns
    -------
    array of float64, shape (num_heads,)
        Unit: 1. NaN without a row of two or more visible keys.
    """
    return per(row_entropy.share, row_entropy.rows)
