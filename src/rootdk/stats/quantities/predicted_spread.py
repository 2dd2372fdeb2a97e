"""The spread that entries of this size give by themselves."""

from __future__ import annotations

import math

import numpy as np

from rootdk.stats.block import Floats
from rootdk.stats.definition import Head
from rootdk.stats.quantity import quantity
from rootdk.stats.statistics.key_entries import KeyEntries
from rootdk.stats.statistics.query_entries import QueryEntries


def _definition(head: Head) -> float:
    if not head.query.size or not head.key.size:
        return float("nan")
    entries = float(np.std(head.query) * np.std(head.key))
    return abs(head.scale) * math.sqrt(head.head_dim) * entries


@quantity(unit="nats", stage="entries", definition=_definition)
def predicted_spread(
    query_entries: QueryEntries, key_entries: KeyEntries, scale: float, head_dim: int
) -> Floats:
    r"""Return the spread that independent, centred entries of the measured size give.

    .. math:: |scale| \cdot \sqrt{head\_dim} \cdot query\_std \cdot key\_std

    A spread well above it comes from correlated or off-centre entries.

    Returns
    -------
    array of float64, shape (num_heads,)
        Unit: nats. NaN without an entry.

    References
    ----------
    Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1, footnote 4.
    """
    return abs(scale) * math.sqrt(head_dim) * query_entries.std * key_entries.std
