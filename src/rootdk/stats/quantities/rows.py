"""How many query rows stand behind a head's numbers."""

from __future__ import annotations

import numpy as np

from rootdk.stats.block import Floats
from rootdk.stats.definition import Head
from rootdk.stats.quantity import quantity
from rootdk.stats.statistics.counts import Counts


def _definition(head: Head) -> float:
    return float(len(head.visible))


@quantity(unit="rows", stage="biased", definition=_definition)
def rows(counts: Counts) -> Floats:
    r"""Return the number of query rows measured, over the whole batch.

    Returns
    -------
    array of float64, shape (num_heads,)
        Unit: rows. 0 of nothing.
    """
    return counts.rows.astype(np.float64)
