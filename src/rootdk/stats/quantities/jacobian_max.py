"""How far the most sensitive weight of a row follows its score."""

from __future__ import annotations

import numpy as np

from rootdk.stats.block import Floats
from rootdk.stats.definition import Head, Row
from rootdk.stats.quantity import quantity
from rootdk.stats.statistic import per
from rootdk.stats.statistics.row_maximum import RowMaximum


def _definition(head: Head) -> float:
    def largest_entry(row: Row) -> float:
        return float(np.max(np.abs(np.diag(row.weights) - np.outer(row.weights, row.weights))))

    return head.row_mean(largest_entry)


@quantity(unit="1", stage="weights", definition=_definition, row_mean="row_maximum.jacobian")
def jacobian_max(row_maximum: RowMaximum) -> Floats:
    r"""Return the largest entry of the softmax Jacobian of a row, mean over rows.

    .. math:: \max_{ij} |\mathrm{diag}(w) - w w^\top|_{ij} = w_{max} (1 - w_{max})

    Mean over rows with two or more visible keys and finite scores.
    At most 1/4. The gradient of the loss with respect to the scores passes through it.

    Returns
    -------
    array of float64, shape (num_heads,)
        Unit: 1. NaN without a row of two or more visible keys.
    """
    return per(row_maximum.jacobian, row_maximum.rows)
