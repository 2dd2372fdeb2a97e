"""Slopes of log-weights on products, and where they are not one number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from rootdk.identify.bench import Bench
from rootdk.identify.model import scores_of
from rootdk.identify.subject import Floats, Refused
from rootdk.records import Sizes

__all__ = ["AXES", "Fit", "centred", "fit", "in_regime"]

_STEPS = 14
_LARGEST, _SMALLEST = 1e7, 1e-7

AXES = {"keys": -1, "queries": -2, "heads": 1, "batch": 0}


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A line through log-weights over products, and what it was fitted to.

    ``spread`` is the standard deviation of the log-weights along the axis, ``reach`` the largest
    distance from their mean, both in nats; ``residual`` the largest departure from the line.
    """

    slope: float
    uncertainty: float
    residual: float
    spread: float
    reach: float
    amplitude: float
    query: Floats
    key: Floats
    products: Floats
    scores: Floats
    sums: tuple[float, float]

    def is_line(self, bench: Bench) -> bool:
        """Whether rounding accounts for the departures."""
        return self.residual <= 4.0 * bench.tolerance(self.reach)

    @property
    def lost(self) -> bool:
        """Whether some weights cannot be read: fewer are finite than visible ones could be."""
        return bool(self.reach > 40.0) or not np.isfinite(self.slope) or _holes(self.scores)


def fit(
    bench: Bench,
    query: Floats,
    key: Floats,
    *,
    amplitude: float = 1.0,
    axis: str = "keys",
    only_first: tuple[int, ...] = (),
    asked: Mapping[str, Any] = MappingProxyType({}),
    normalises: tuple[str, ...] = (),
) -> Fit:
    """Return the line through the log-weights of one call.

    What the function adds by itself is seen at query = 0, and subtracted. ``only_first`` are axes
    of the scores along which only the first index is used.
    """
    weights = bench.weights(query, key, **asked)
    sums = weights.sum(axis=-1)
    scores = bench.log_weights(weights)
    if bench.notebook.get("bias.kind", "none") != "none":
        scores = scores - bench.log_weights(bench.weights(np.zeros_like(query), key, **asked))
    products = scores_of(query, key, normalises)
    for along in only_first:
        scores, products = scores.take([0], along), products.take([0], along)
    scores, products = centred(scores, AXES[axis]), centred(products, AXES[axis], scores)
    if bench.notebook.get("softmax.renormalised"):
        scores, products = centred(scores, -1), centred(products, -1, scores)
    seen = np.isfinite(scores)
    x, y = products[seen], scores[seen]
    weight = float(np.sum(x * x))
    slope = float(np.sum(x * y) / weight) if weight > 0.0 else float("nan")
    departures = y - slope * x
    noise = max(float(np.std(departures)) if y.size else 0.0, bench.eps)
    return Fit(
        slope=slope,
        uncertainty=noise / np.sqrt(weight) if weight > 0.0 else float("inf"),
        residual=float(np.max(np.abs(departures), initial=0.0)),
        spread=float(np.std(y)) if y.size else 0.0,
        reach=float(np.max(np.abs(y), initial=0.0)),
        amplitude=amplitude,
        query=query,
        key=key,
        products=products,
        scores=scores,
        sums=(float(sums.min()), float(sums.max())),
    )


def in_regime(
    bench: Bench,
    sizes: Sizes,
    spread: float,
    *,
    start: float = 1.0,
    make: Callable[[Sizes, float], tuple[Floats, Floats]] | None = None,
    **how: object,
) -> Fit:
    """Return the fit at an amplitude where the log-weights have about the wanted spread.

    The amplitude of the query grows or falls until they have. Where they cannot (a bounded
    score), the last try is returned.

    Raises
    ------
    Refused
        If the function refuses every amplitude.
    """
    make = make or bench.query_key
    amplitude = start
    best: Fit | None = None
    for _ in range(_STEPS):
        query, key = make(sizes, amplitude)
        try:
            found = fit(bench, query, key, amplitude=amplitude, **how)  # type: ignore[arg-type]
        except Refused:
            if best is not None:
                return best
            raise
        whole = bool(np.isfinite(found.scores).any()) and found.spread > 0.0
        lost = found.lost
        if whole and not lost:
            best = found
            if 0.5 * spread <= found.spread <= 2.0 * spread:
                return found
        ratio = spread / found.spread if whole and not lost else 1.0 / 16.0 if lost else 256.0
        new = min(max(amplitude * min(max(ratio, 1e-3), 1e4), _SMALLEST), _LARGEST)
        if new == amplitude:
            break
        amplitude = new
    if best is None:
        return found
    return best


def _holes(scores: Floats) -> bool:
    hidden = ~np.isfinite(scores)
    if not hidden.any() or hidden.all():
        return bool(hidden.all())
    # A causal function hides the same entries in every sample and head; underflow does not.
    return bool((hidden != hidden[:1, :1]).any())


def centred(values: Floats, axis: int, like: Floats | None = None) -> Floats:
    """Return values less their mean along an axis, over what is finite in ``like``."""
    seen = np.isfinite(values if like is None else like)
    count = np.maximum(np.sum(seen, axis=axis, keepdims=True), 1)
    mean = np.sum(np.where(seen, values, 0.0), axis=axis, keepdims=True) / count
    return np.where(seen, values - mean, np.nan)
