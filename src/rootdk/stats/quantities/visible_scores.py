"""How many scores stand behind a head's numbers."""

from __future__ import annotations

import numpy as np

from rootdk.stats.block import Floats
from rootdk.stats.definition import Head
from rootdk.stats.quantity import quantity
from rootdk.stats.statistics.counts import Counts


def _definition(head: Head) -> float:
    return float(np.sum(head.visible))


@quantity(unit="scores", stage="biased", definition=_definition)
def visible_scores(counts: Counts) -> Floats:
    r"""Return the number of visible scores in the rows measured.

    A mask, causal order, a window or a bias of −∞ hides a score. A finite fill such as −1e9
    hides none: to rootdk it is a visible score whose weight happens to be 0.

    Returns
    -------
    array of float64, shape (num_heads,)
        Unit: scores. 0 of nothing.
    """
    return counts.visible_scores.astype(np.float64)
