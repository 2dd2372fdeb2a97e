"""How large the entries of the query are."""

from __future__ import annotations

import numpy as np

from rootdk.stats.block import Floats
from rootdk.stats.definition import Head
from rootdk.stats.quantity import quantity
from rootdk.stats.statistics.query_entries import QueryEntries


def _definition(head: Head) -> float:
    return float(np.sqrt(np.mean(head.query**2))) if head.query.size else float("nan")


@quantity(unit="query entries", stage="entries", definition=_definition)
def query_rms(query_entries: QueryEntries) -> Floats:
    r"""Return the root of the mean square of the entries of the query.

    .. math:: \sqrt{\frac1n \sum x^2}

    Over all entries of the head, in the whole batch.

    Returns
    -------
    array of float64, shape (num_heads,)
        Unit: that of the query. NaN without an entry.
    """
    return query_entries.rms
