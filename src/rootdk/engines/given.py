"""Statistics of scores that are there already, of which no query and key are to be had."""

from __future__ import annotations

import numpy as np

from rootdk.engines.fill import fill
from rootdk.engines.measurement import sample_notes
from rootdk.engines.reference import WholeBlock
from rootdk.stats.block import Booleans, Floats
from rootdk.stats.quantity import needed_statistics
from rootdk.stats.summary import Summary

_BLOCK = 2**20
"""Scores that are measured at once."""


def measure_given(
    scores: Floats,
    visible: Booleans,
    *,
    scale: float,
    head_dim: int,
    score_dtype: str,
    rows: int,
    without_entries: str,
) -> Summary:
    """Measure scaled scores as they are, per head, in float64.

    Parameters
    ----------
    scores : array of float64
        ``(num_heads, rows, keys)``, scaled; what is invisible may be anything.
    visible : array of bool
        Which of them a row sees, of the same shape.
    scale, head_dim, score_dtype
        What the summary says of the call.
    rows : int
        How many rows a head has; the others are taken for a sample of them.
    without_entries : str
        Why the entries of query, key, value and inputs are not measured.

    Returns
    -------
    Summary
        Every quantity that is made of scores and weights alone.

    Examples
    --------
    Scores of 0 and log 3 give weights of 1/4 and 3/4:

    >>> scores = np.log([[[1.0, 3.0]]])
    >>> told = {"scale": 1.0, "head_dim": 1, "score_dtype": "float64", "rows": 1}
    >>> summary = measure_given(
    ...     scores, scores == scores, **told, without_entries="they are not known"
    ... )
    >>> summary["max_weight"].round(12), summary.why_absent("query_std")
    (array([0.75]), 'they are not known')
    """
    names = set(needed_statistics(None))
    heads, count, keys = scores.shape
    step = max(_BLOCK // max(heads * keys, 1), 1)
    blocks = (
        WholeBlock(
            query=scores[:, start : start + step],
            scores=scores[:, start : start + step],
            visible=visible[:, start : start + step],
            final=np.where(visible, scores, -np.inf)[:, start : start + step],
        )
        for start in range(0, count, step)
    )
    filled = fill(blocks, names, "scores as they were (numpy, float64)", heads)
    return Summary(
        num_heads=heads,
        states=filled.states,
        scale=scale,
        head_dim=head_dim,
        score_dtype=score_dtype,
        engines=(filled.engine,),
        notes=sample_notes(count, rows, set(filled.states)),
        absent=dict.fromkeys(names - set(filled.states), without_entries),
    )
