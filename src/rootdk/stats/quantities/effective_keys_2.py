"""How many keys a row attends to, as the inverse of its squared weights."""

from __future__ import annotations

import numpy as np

from rootdk.stats.block import Floats
from rootdk.stats.definition import Head
from rootdk.stats.quantity import quantity
from rootdk.stats.statistic import per
from rootdk.stats.statistics.row_squares import RowSquares


def _definition(head: Head) -> float:
    return head.row_mean(lambda row: float(1.0 / np.sum(row.weights**2)))


@quantity(
    unit="keys", stage="weights", definition=_definition, row_mean="row_squares.effective_keys"
)
def effective_keys_2(row_squares: RowSquares) -> Floats:
    r"""Return the inverse of the sum of squared weights of a row, mean over rows.

    .. math:: \frac{1}{\sum_j w_j^2}

    Mean over rows with two or more visible keys and finite scores.
    The participation ratio; the Hill number of order 2. Never more than that of order 1,
    and quicker to fall when one key takes over.

    Returns
    -------
    array of float64, shape (num_heads,)
        Unit: keys. NaN without a row of two or more visible keys.

    References
    ----------
    Hill 1973, "Diversity and Evenness", equation 4.
    """
    return per(row_squares.effective_keys, row_squares.rows)
