"""How large the entries of the key are."""

from __future__ import annotations

import numpy as np

from rootdk.stats.block import Floats
from rootdk.stats.definition import Head
from rootdk.stats.quantity import quantity
from rootdk.stats.statistics.key_entries import KeyEntries


def _definition(head: Head) -> float:
    return float(np.sqrt(np.mean(head.key**2))) if head.key.size else float("nan")


@quantity(unit="key entries", stage="entries", definition=_definition)
def key_rms(key_entries: KeyEntries) -> Floats:
    r"""Return the root of the mean square of the entries of the key.

    .. math:: \sqrt{\frac1n \sum x^2}

    Over all entries of the key-value head that the query head uses, in the whole batch.

    Returns
    -------
    array of float64, shape (num_heads,)
        Unit: that of the key. NaN without an entry.
    """
    return key_entries.rms
