"""How many scores are NaN or infinite."""

from __future__ import annotations

import numpy as np

from rootdk.stats.block import Floats
from rootdk.stats.definition import Head
from rootdk.stats.quantity import quantity
from rootdk.stats.statistics.nonfinite import Nonfinite


def _definition(head: Head) -> float:
    return float(np.sum(~np.isfinite(head.scores[head.visible])))


@quantity(unit="scores", stage="scaled", definition=_definition)
def nonfinite_scores(nonfinite: Nonfinite) -> Floats:
    r"""Return the number of visible scaled scores that are NaN or infinite.

    They are left out of the other score quantities.

    Returns
    -------
    array of float64, shape (num_heads,)
        Unit: scores. 0 without a visible score.
    """
    return nonfinite.scores.astype(np.float64)
