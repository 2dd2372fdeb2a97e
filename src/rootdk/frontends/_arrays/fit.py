"""The scale that kept weights, scores or outputs were made with, found from them alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rootdk.frontends._arrays.call import Kept, SavedCall
from rootdk.frontends._arrays.sample import Rows, each_entry

__all__ = ["Fit", "fitted_scale"]

_STEPS = 60
_HALVINGS = 30
_SIGMAS = 4.0
_LEAST_WEIGHT = 1e-6
"""Smaller weights are left out where logarithms are taken: rounding is large beside them."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A scale, and how far it may be off relative to itself (four standard errors)."""

    scale: float
    uncertainty: float


def fitted_scale(drawn: tuple[Rows, ...], kept: Kept, call: SavedCall) -> Fit | None:
    r"""Return the scale that fits what was kept best; None where nothing depends on it.

    Damped Gauss-Newton on Σ (kept − predicted(c))² over the sampled rows. For weights without a
    softcap the start is the slope of log w over q·k within rows, which is c itself:
    log wᵢⱼ = c·qᵢ·kⱼ + biasᵢⱼ − Lᵢ. Otherwise several starts are tried.
    """
    head_dim = max(call.query.shape[-1], 1)
    starts = [head_dim**-0.5, 1.0, 1.0 / head_dim, head_dim**0.5]
    if kept.kind == "weights" and call.softcap is None:
        slope = _log_slope(drawn)
        starts = [slope] if slope is not None else starts
    found = [fit for start in starts if (fit := _from(start, drawn, kept, call)) is not None]
    return min(found, key=lambda pair: pair[0])[1] if found else None


def _from(
    start: float, drawn: tuple[Rows, ...], kept: Kept, call: SavedCall
) -> tuple[float, Fit] | None:
    scale = start
    loss, gradient, curvature, count = _sums(drawn, kept, call, scale)
    for _ in range(_STEPS):
        if not (curvature > 0.0 and math.isfinite(curvature)):
            return None
        step = gradient / curvature
        for _ in range(_HALVINGS):
            tried = _sums(drawn, kept, call, scale + step)
            if tried[0] <= loss:
                break
            step *= 0.5
        else:
            break
        scale += step
        loss, gradient, curvature, count = tried
        if abs(step) <= 1e-12 * abs(scale):
            break
    if not (curvature > 0.0 and math.isfinite(curvature)) or scale == 0.0 or count < 2:
        return None
    error = math.sqrt(loss / (count - 1) / curvature)
    return loss, Fit(scale=scale, uncertainty=_SIGMAS * error / abs(scale))


def _sums(
    drawn: tuple[Rows, ...], kept: Kept, call: SavedCall, scale: float
) -> tuple[float, float, float, int]:
    """Σ r², Σ r·slope, Σ slope² and how many entries, r being kept minus predicted."""
    loss = gradient = curvature = 0.0
    count = 0
    for rest, slope in each_entry(drawn, kept, call, scale):
        loss += float(rest @ rest)
        gradient += float(rest @ slope)
        curvature += float(slope @ slope)
        count += rest.size
    return loss, gradient, curvature, count


def _log_slope(drawn: tuple[Rows, ...]) -> float | None:
    both = alone = 0.0
    for rows in drawn:
        usable = rows.seen & (rows.observed > _LEAST_WEIGHT) & np.isfinite(rows.observed)
        logs = np.log(np.where(usable, rows.observed, 1.0)) - rows.added
        many = np.maximum(usable.sum(-1, keepdims=True), 1)
        dots = np.where(usable, rows.dots, 0.0)
        logs = np.where(usable, logs, 0.0)
        dots = np.where(usable, dots - dots.sum(-1, keepdims=True) / many, 0.0)
        both += float((dots * logs).sum())
        alone += float((dots * dots).sum())
    return both / alone if alone > 0.0 and math.isfinite(both) else None
