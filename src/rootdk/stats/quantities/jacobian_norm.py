"""The size of the softmax Jacobian of a row."""

from __future__ import annotations

import numpy as np

from rootdk.stats.block import Floats
from rootdk.stats.definition import Head, Row
from rootdk.stats.quantity import quantity
from rootdk.stats.statistic import per
from rootdk.stats.statistics.row_jacobian_norm import RowJacobianNorm


def _definition(head: Head) -> float:
    def norm(row: Row) -> float:
        return float(np.linalg.norm(np.diag(row.weights) - np.outer(row.weights, row.weights)))

    return head.row_mean(norm)


@quantity(unit="1", stage="weights", definition=_definition, row_mean="row_jacobian_norm.norm")
def jacobian_norm(row_jacobian_norm: RowJacobianNorm) -> Floats:
    r"""Return the frobenius norm of the softmax Jacobian of a row, mean over rows.

    .. math:: \sqrt{\sum_j w_j^2 - 2 \sum_j w_j^3 + \Bigl(\sum_j w_j^2\Bigr)^2}

    Mean over rows with two or more visible keys and finite scores.

    Returns
    -------
    array of float64, shape (num_heads,)
        Unit: 1. NaN without a row of two or more visible keys.
    """
    return per(row_jacobian_norm.norm, row_jacobian_norm.rows)
