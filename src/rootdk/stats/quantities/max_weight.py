"""How much the heaviest key of a row takes."""

from __future__ import annotations

import numpy as np

from rootdk.stats.block import Floats
from rootdk.stats.definition import Head
from rootdk.stats.quantity import quantity
from rootdk.stats.statistic import per
from rootdk.stats.statistics.row_maximum import RowMaximum


def _definition(head: Head) -> float:
    return head.row_mean(lambda row: float(np.max(row.weights)))


@quantity(unit="1", stage="weights", definition=_definition, row_mean="row_maximum.max_weight")
def max_weight(row_maximum: RowMaximum) -> Floats:
    r"""Return the largest weight of a row, mean over rows.

    .. math:: \max_j w_j

    Mean over rows with two or more visible keys and finite scores.

    Returns
    -------
    array of float64, shape (num_heads,)
        Unit: 1. NaN without a row of two or more visible keys.
    """
    return per(row_maximum.max_weight, row_maximum.rows)
