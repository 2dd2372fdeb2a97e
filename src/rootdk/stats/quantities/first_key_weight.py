"""How much key 0 takes: the attention sink."""

from __future__ import annotations

from rootdk.stats.block import Floats
from rootdk.stats.definition import Head
from rootdk.stats.quantity import quantity
from rootdk.stats.statistic import per
from rootdk.stats.statistics.row_first_key import RowFirstKey


def _definition(head: Head) -> float:
    return head.row_mean(lambda row: row.first_key_weight)


@quantity(unit="1", stage="weights", definition=_definition, row_mean="row_first_key.weight")
def first_key_weight(row_first_key: RowFirstKey) -> Floats:
    r"""Return the weight of key 0, mean over rows.

    .. math:: w_0

    Mean over rows with two or more visible keys and finite scores.
    0 in a row that cannot see key 0.

    Returns
    -------
    array of float64, shape (num_heads,)
        Unit: 1. NaN without a row of two or more visible keys.

    References
    ----------
    Xiao et al. 2023, "Efficient Streaming Language Models with Attention Sinks", section 3.1.
    """
    return per(row_first_key.weight, row_first_key.rows)
