"""How many rows have a key that takes more than 0.90."""

from __future__ import annotations

import numpy as np

from rootdk.stats.block import Floats
from rootdk.stats.definition import Head
from rootdk.stats.quantity import quantity
from rootdk.stats.statistic import per
from rootdk.stats.statistics.row_maximum import RowMaximum


def _definition(head: Head) -> float:
    return head.row_mean(lambda row: float(np.max(row.weights) > 0.90))


@quantity(unit="1", stage="weights", definition=_definition, row_mean="row_maximum.over_90")
def rows_over_90(row_maximum: RowMaximum) -> Floats:
    r"""Return the share of rows whose largest weight exceeds 0.90.

    .. math:: \frac{|\{i : \max_j w_{ij} > 0.90\}|}{rows}

    Of the rows with two or more visible keys and finite scores.

    Returns
    -------
    array of float64, shape (num_heads,)
        Unit: 1. NaN without a row of two or more visible keys.
    """
    return per(row_maximum.over_90, row_maximum.rows)
