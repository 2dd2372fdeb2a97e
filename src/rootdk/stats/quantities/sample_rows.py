"""A few whole rows of weights, to look at."""

from __future__ import annotations

import numpy as np

from rootdk.stats.block import Floats
from rootdk.stats.definition import Head
from rootdk.stats.quantity import quantity
from rootdk.stats.statistics.row_samples import SAMPLED_WEIGHTS, RowSamples


def _definition(head: Head) -> object:
    return [np.sort(row.weights)[::-1][:SAMPLED_WEIGHTS] for row in head.rows()]


@quantity(unit="1", stage="weights", definition=_definition, per_head="rows")
def sample_rows(row_samples: RowSamples) -> tuple[tuple[Floats, ...], ...]:
    r"""Return the sorted weights of at most 8 rows, each its largest 256 at most.

    Which rows is pseudo-random, and the same in whatever order and company they are measured:
    see :class:`RowSamples`. Rows with one visible key take part.

    Returns
    -------
    array of float64, shape (visible_keys,), for each row of each head
        Unit: 1. No row of nothing.
    """
    return row_samples.rows()
