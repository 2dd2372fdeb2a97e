"""How large the entries of the query are, about their mean."""

from __future__ import annotations

import numpy as np

from rootdk.stats.block import Floats
from rootdk.stats.definition import Head
from rootdk.stats.quantity import quantity
from rootdk.stats.statistics.query_entries import QueryEntries


def _definition(head: Head) -> float:
    return float(np.std(head.query)) if head.query.size else float("nan")


@quantity(unit="query entries", stage="entries", definition=_definition)
def query_std(query_entries: QueryEntries) -> Floats:
    r"""Return the standard deviation of the entries of the query, with ddof 0.

    .. math:: \sqrt{\frac1n \sum (x - \bar x)^2}

    Over all entries of the head, in the whole batch.

    Returns
    -------
    array of float64, shape (num_heads,)
        Unit: that of the query. NaN without an entry.
    """
    return query_entries.std
