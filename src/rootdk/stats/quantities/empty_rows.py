"""How many rows see no key."""

from __future__ import annotations

import numpy as np

from rootdk.stats.block import Floats
from rootdk.stats.definition import Head
from rootdk.stats.quantity import quantity
from rootdk.stats.statistics.counts import Counts


def _definition(head: Head) -> float:
    return float(np.sum(np.sum(head.visible, axis=1) == 0))


@quantity(unit="rows", stage="biased", definition=_definition)
def empty_rows(counts: Counts) -> Floats:
    r"""Return the number of rows without a visible key.

    They are left out of every mean over rows.

    Returns
    -------
    array of float64, shape (num_heads,)
        Unit: rows. 0 of nothing.
    """
    return counts.empty_rows.astype(np.float64)
