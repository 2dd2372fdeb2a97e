"""How large the entries of the value are, about their mean."""

from __future__ import annotations

import numpy as np

from rootdk.stats.block import Floats
from rootdk.stats.definition import Head
from rootdk.stats.quantity import quantity
from rootdk.stats.statistics.value_entries import ValueEntries


def _definition(head: Head) -> float:
    if head.value is None:
        return float("nan")
    return float(np.std(head.value)) if head.value.size else float("nan")


@quantity(unit="value entries", stage="entries", definition=_definition)
def value_std(value_entries: ValueEntries) -> Floats:
    r"""Return the standard deviation of the entries of the value, with ddof 0.

    .. math:: \sqrt{\frac1n \sum (x - \bar x)^2}

    Over all entries of the key-value head that the query head uses, in the whole batch.

    Returns
    -------
    array of float64, shape (num_heads,)
        Unit: that of the value. NaN without an entry.
    """
    return value_entries.std
