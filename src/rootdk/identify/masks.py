"""What masked weights look like under every reading of a mask, and which one was seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rootdk._lib.arrays import quiet
from rootdk.identify.bench import Bench
from rootdk.identify.subject import Floats

__all__ = ["Reading", "expected_weights", "moderate", "read_mask"]

_CLOSE = 2e-3


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a boolean mask did.

    ``boolean`` as in MaskFacts. ``fill`` is the number that hidden scores got (``replaces``) or
    had added, where weights point to one; ``leak`` the largest weight on a hidden key.
    """

    boolean: str
    after_softmax: bool = False
    fill: float | None = None
    replaces: bool | None = None
    leak: float = 0.0


def moderate(bench: Bench, spread: float = 1.0, **changes: int) -> tuple[Floats, Floats]:
    """Return query and key whose scaled scores have some spread, at the base sizes."""
    sizes = bench.with_sizes(**changes)
    value = bench.notebook.get("scale.value")
    if value is None or value == 0.0 or bench.normalises:
        return bench.query_key(sizes)
    return bench.query_key(sizes, spread / (abs(value) * np.sqrt(sizes.head_dim)))


def expected_weights(
    bench: Bench, query: Floats, key: Floats, *, mask: Any = None, bias: Floats | None = None
) -> Floats:
    """Return the weights that a mask or a bias should leave.

    By the model where the plain call was understood, otherwise from the plain weights.
    """
    if bench.model is not None:
        return bench.model.weights(query, key, mask=mask, bias=bias)
    plain = bench.weights(query, key)
    with quiet():
        terms = plain if bias is None else plain * np.exp(bias)
        terms = terms if mask is None else np.where(mask, terms, 0.0)
        return np.asarray(terms / terms.sum(axis=-1, keepdims=True))


def read_mask(bench: Bench, query: Floats, key: Floats, mask: Any, seen: Floats) -> Reading:
    """Return the reading of a mask that explains the weights seen."""
    plain = expected_weights(bench, query, key)
    hidden_leak = float(np.max(np.where(mask, 0.0, np.abs(seen)), initial=0.0))
    readings = (
        ("true_attends", expected_weights(bench, query, key, mask=mask), False),
        ("true_forbids", expected_weights(bench, query, key, mask=~mask), False),
        ("none", plain, False),
        ("added", expected_weights(bench, query, key, bias=mask.astype(np.float64)), False),
        ("true_attends", plain * mask, True),
        ("true_forbids", plain * ~mask, True),
    )
    for boolean, weights, after in readings:
        if _close(seen, weights):
            leak = hidden_leak if boolean in ("true_attends", "added") and not after else 0.0
            return Reading(boolean=boolean, after_softmax=after, leak=leak if leak > 1e-6 else 0.0)
    return _by_fill(bench, query, key, mask, seen, hidden_leak)


def _by_fill(
    bench: Bench, query: Floats, key: Floats, mask: Any, seen: Floats, leak: float
) -> Reading:
    """Look for one number that hidden scores had added, or were replaced by."""
    mask = np.broadcast_to(mask, seen.shape)
    if not np.isfinite(seen).all():
        return Reading(boolean="other", leak=leak)
    plain = bench.log_weights(bench.weights(query, key))
    masked = bench.log_weights(seen)
    change = masked - plain
    added = _step(change, mask)
    if added is not None:
        boolean = "true_attends" if added < 0.0 else "true_forbids"
        return Reading(boolean=boolean, fill=added, replaces=False, leak=leak)
    if bench.model is not None:
        # A hidden score of its own makes hidden weights equal, relative to visible scores.
        scores = bench.model.scores(query, key)
        level = np.where(mask, masked - scores, masked)
        fill = _step(level, mask)
        if fill is not None:
            return Reading(boolean="true_attends", fill=fill, replaces=True, leak=leak)
    return Reading(boolean="other", leak=leak)


def _step(values: Floats, mask: Any) -> float | None:
    """Return hidden less visible values, if each row has one of each, the same in all rows."""
    steps = []
    for row, shown in zip(
        values.reshape(-1, values.shape[-1]), mask.reshape(-1, values.shape[-1]), strict=True
    ):
        visible, hidden = row[shown], row[~shown]
        if not (np.isfinite(visible).all() and np.isfinite(hidden).all()):
            return None
        if len(visible) == 0 or len(hidden) == 0:
            continue
        if np.ptp(visible) > 2e-2 or np.ptp(hidden) > 2e-2:
            return None
        steps.append(float(hidden.mean() - visible.mean()))
    if not steps or np.ptp(steps) > 2e-2:
        return None
    return float(np.mean(steps))


def _close(one: Floats, other: Floats) -> bool:
    return bool(np.isfinite(one).all()) and float(np.max(np.abs(one - other))) <= _CLOSE
