"""Counts and extremes read off the stored arrays themselves."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from rootdk.frontends._arrays.call import Kept, SavedCall
from rootdk.records import Observed

__all__ = ["observe"]

Places = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]


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
    wrong = max(_of_bias(call), _of_output(call, kept) if kept is not None else 0)
    return Observed(nonfinite_inputs=bad, nonfinite_scores=wrong or None)


def _of_output(call: SavedCall, kept: Kept) -> int:
    """How many rows of the output are NaN although they see a key and all values are finite."""
    if call.value is None or not np.all(np.isfinite(call.value)):
        return 0
    batch, heads = kept.array.shape[:2]
    count = 0
    for b in range(batch):
        for h in range(heads):
            lost = np.isnan(kept.array[b, h]).any(-1)
            count += int((lost & _reached(call, b, h, kept.rows)).sum())
    return count


def _reached(call: SavedCall, batch: int, head: int, rows: Places) -> Marks:
    """Which query rows see a key that no bias hides."""
    hidden = np.asarray(call.added(batch, head, rows)) == -math.inf
    return np.asarray((call.visible(batch, head, rows) & ~hidden).any(-1))


def _of_bias(call: SavedCall) -> int:
    """How many visible scores a bias makes NaN or infinite."""
    bias = call.bias
    if bias is None or not np.any(np.isnan(bias) | (bias == math.inf)):
        return 0
    batch, heads, queries, _ = call.query.shape
    rows, count = np.arange(queries), 0
    for b in range(batch):
        for h in range(heads):
            added = np.asarray(call.added(b, h, rows))
            wrong = np.isnan(added) | (added == math.inf)
            count += int((wrong & call.visible(b, h, rows)).sum())
    return count


def _of_weights(call: SavedCall, kept: Kept, bad: int) -> Observed:
    """Row sums over rows with a visible key; weight on hidden keys; empty rows that are NaN."""
    least, most, forbidden, nans, wrong = math.inf, -math.inf, 0.0, 0, 0
    batch, heads = kept.array.shape[:2]
    hiding = call.mask is not None or call.causal is not None or call.window is not None
    for b in range(batch):
        for h in range(heads):
            weights = kept.array[b, h].astype(np.float64)
            seen = call.visible(b, h, kept.rows)
            some = np.asarray(seen.any(-1))
            sums = weights.sum(-1)
            alive = some & np.isfinite(sums)
            # One score that is not finite makes a row of weights NaN.
            wrong += int((np.isnan(sums) & _reached(call, b, h, kept.rows)).sum())
            if alive.any():
                least = min(least, float(sums[alive].min()))
                most = max(most, float(sums[alive].max()))
            visible = seen | ~some[:, None]
            hidden = np.where(visible, 0.0, np.nan_to_num(weights))
            forbidden = max(forbidden, float(hidden.max(initial=0.0)))
            nans += int((np.isnan(weights).all(-1) & ~some).sum())
    known = math.isfinite(least)
    return Observed(
        nonfinite_scores=max(wrong, _of_bias(call)) or None,
        nonfinite_inputs=bad,
        row_sum_min=least if known else None,
        row_sum_max=most if known else None,
        forbidden_weight=forbidden if hiding else None,
        empty_rows_nan=nans if hiding else None,
    )
