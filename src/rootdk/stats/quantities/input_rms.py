"""How large the entries of the input are."""

from __future__ import annotations

import numpy as np

from rootdk.stats.block import Floats
from rootdk.stats.definition import Head
from rootdk.stats.quantity import quantity
from rootdk.stats.statistics.input_entries import InputEntries


def _definition(head: Head) -> float:
    if head.inputs is None:
        return float("nan")
    return float(np.sqrt(np.mean(head.inputs**2))) if head.inputs.size else float("nan")


@quantity(unit="input entries", stage="entries", definition=_definition)
def input_rms(input_entries: InputEntries) -> Floats:
    r"""Return the root of the mean square of what enters the query and key projections.

    .. math:: \sqrt{\frac1n \sum x^2}

    Over all entries of what enters the query and key projections; the same for each head.

    Returns
    -------
    array of float64, shape (num_heads,)
        Unit: that of the input. NaN without an entry.
    """
    return input_entries.rms
