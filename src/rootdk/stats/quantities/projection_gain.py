"""How much the query projection enlarges what enters it."""

from __future__ import annotations

import numpy as np

from rootdk.stats.block import Floats
from rootdk.stats.definition import Head
from rootdk.stats.quantity import quantity
from rootdk.stats.statistics.input_entries import InputEntries
from rootdk.stats.statistics.query_entries import QueryEntries


def _definition(head: Head) -> float:
    if (
        head.inputs is None
        or not head.inputs.size
        or not head.query.size
        or not np.any(head.inputs)
    ):
        return float("nan")
    return float(np.std(head.query) / np.sqrt(np.mean(head.inputs**2)))


@quantity(unit="1", stage="entries", definition=_definition)
def projection_gain(query_entries: QueryEntries, input_entries: InputEntries) -> Floats:
    r"""Return the standard deviation of the query over the root mean square of its input.

    .. math:: \frac{query\_std}{input\_rms}

    Near 1 for a projection that keeps the size of its input.

    Returns
    -------
    array of float64, shape (num_heads,)
        Unit: 1. NaN without an entry, and where the input is all 0.
    """
    rms = input_entries.rms
    return np.where(rms > 0, query_entries.std / np.where(rms > 0, rms, 1.0), np.nan)
