"""How far the weights of a row follow their own scores, together."""

from __future__ import annotations

import numpy as np

from rootdk.stats.block import Floats
from rootdk.stats.definition import Head, Row
from rootdk.stats.quantity import quantity
from rootdk.stats.statistic import per
from rootdk.stats.statistics.row_squares import RowSquares


def _definition(head: Head) -> float:
    def trace(row: Row) -> float:
        return float(np.sum(row.weights * (1.0 - row.weights)))

    return head.row_mean(trace)


@quantity(unit="1", stage="weights", definition=_definition, row_mean="row_squares.trace")
def jacobian_trace(row_squares: RowSquares) -> Floats:
    r"""Return the trace of the softmax Jacobian of a row, mean over rows.

    .. math:: \mathrm{tr}(\mathrm{diag}(w) - w w^\top) = 1 - \sum_j w_j^2

    Mean over rows with two or more visible keys and finite scores.
    The sum of its eigenvalues, all of them at least 0. Near 1 for even weights, 0 for one.

    Returns
    -------
    array of float64, shape (num_heads,)
        Unit: 1. NaN without a row of two or more visible keys.
    """
    return per(row_squares.trace, row_squares.rows)
