"""Counts and extremes read off the stored arrays themselves."""

from __future__ import annotations

import math

import numpy as np

from rootdk.frontends._arrays.call import Kept, SavedCall
from rootdk.records import Observed

__all__ = ["observe"]


def observe(call: SavedCall) -> Observed:
    """Return what the stored operands, weights or scores show without any claim on the scale."""
    bad = sum(int(np.sum(~np.isfinite(a))) for a in (call.query, call.key))
    kept = call.kept
    if kept is not None and kept.kind == "weights":
        return _of_weights(call, kept, bad)
    if kept is not None and kept.kind == "scores":
        scores = kept.array
        wrong = int(np.sum(np.isnan(scores) | (scores == math.inf)))
        return Observed(nonfinite_inputs=bad, nonfinite_scores=wrong)
    return Observed(nonfinite_inputs=bad)


def _of_weights(call: SavedCall, kept: Kept, bad: int) -> Observed:
    """Row sums over rows with a visible key; weight on hidden keys; empty rows that are NaN."""
    least, most, forbidden, nans = math.inf, -math.inf, 0.0, 0
    batch, heads = kept.array.shape[:2]
    hiding = call.mask is not None or call.causal is not None or call.window is not None
    for b in range(batch):
        for h in range(heads):
            weights = kept.array[b, h].astype(np.float64)
            seen = call.visible(b, h, kept.rows)
            some = np.asarray(seen.any(-1))
            sums = weights.sum(-1)
            alive = some & np.isfinite(sums)
            if alive.any():
                least = min(least, float(sums[alive].min()))
                most = max(most, float(sums[alive].max()))
            visible = seen | ~some[:, None]
            hidden = np.where(visible, 0.0, np.nan_to_num(weights))
            forbidden = max(forbidden, float(hidden.max(initial=0.0)))
            nans += int((np.isnan(weights).all(-1) & ~some).sum())
    known = math.isfinite(least)
    return Observed(
        nonfinite_inputs=bad,
        row_sum_min=least if known else None,
        row_sum_max=most if known else None,
        forbidden_weight=forbidden if hiding else None,
        empty_rows_nan=nans if hiding else None,
    )
