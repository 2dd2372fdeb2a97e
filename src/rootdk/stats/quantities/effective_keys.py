"""How many keys a row attends to, as the exponential of its entropy."""

from __future__ import annotations

import numpy as np

from rootdk.stats.block import Floats
from rootdk.stats.definition import Head, xlogx
from rootdk.stats.quantity import quantity
from rootdk.stats.statistic import per
from rootdk.stats.statistics.row_entropy import RowEntropy


def _definition(head: Head) -> float:
    return head.row_mean(lambda row: float(np.exp(-np.sum(xlogx(row.weights)))))


@quantity(
    unit="keys", stage="weights", definition=_definition, row_mean="row_entropy.effective_keys"
)
def effective_keys(row_entropy: RowEntropy) -> Floats:
    r"""Return the exponential of the entropy of a row, mean over rows.

    .. math:: e^H

    Mean over rows with two or more visible keys and finite scores.
    The number of keys that would give this entropy if they shared the weight evenly; the
    Hill number of order 1.

    Returns
    -------
    array of float64, shape (num_heads,)
        Unit: keys. NaN without a row of two or more visible keys.

    References
    ----------
    Hill 1973, "Diversity and Evenness", equation 4.
    """
    return per(row_entropy.effective_keys, row_entropy.rows)
