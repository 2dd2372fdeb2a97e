"""How many rows have no defined softmax because a score is not finite."""

from __future__ import annotations

import numpy as np

from rootdk.stats.block import Floats
from rootdk.stats.definition import Head
from rootdk.stats.quantity import quantity
from rootdk.stats.statistics.nonfinite import Nonfinite


def _definition(head: Head) -> float:
    return float(np.sum(np.any(~np.isfinite(head.final) & head.visible, axis=1)))


@quantity(unit="rows", stage="biased", definition=_definition)
def nonfinite_rows(nonfinite: Nonfinite) -> Floats:
    r"""Return the number of rows with a visible final score that is NaN or infinite.

    They are left out of every mean over rows. The final scores hold softcap and bias.

    Returns
    -------
    array of float64, shape (num_heads,)
        Unit: rows. 0 without a row.
    """
    return nonfinite.rows.astype(np.float64)
