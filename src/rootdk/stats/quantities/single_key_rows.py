"""How many rows see one key only."""

from __future__ import annotations

import numpy as np

from rootdk.stats.block import Floats
from rootdk.stats.definition import Head
from rootdk.stats.quantity import quantity
from rootdk.stats.statistics.counts import Counts


def _definition(head: Head) -> float:
    return float(np.sum(np.sum(head.visible, axis=1) == 1))


@quantity(unit="rows", stage="biased", definition=_definition)
def single_key_rows(counts: Counts) -> Floats:
    r"""Return the number of rows with exactly one visible key.

    Their weight is 1 whatever the score, so they are left out of entropy, concentration and
    Jacobian.

    Returns
    -------
    array of float64, shape (num_heads,)
        Unit: rows. 0 of nothing.
    """
    return counts.single_key_rows.astype(np.float64)
