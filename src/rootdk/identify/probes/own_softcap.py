"""A bound on the scores that the function applies unasked, and whether large scores survive."""

from __future__ import annotations

import numpy as np

from rootdk.identify.bench import Bench, NotReady
from rootdk.identify.model import capped
from rootdk.identify.probes._base import Probe
from rootdk.identify.subject import Floats

__all__ = ["OwnSoftcap", "ramp"]

_HEIGHTS = (0.0, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 50.0, 80.0, 150.0, 400.0, 1000.0)


class OwnSoftcap(Probe):
    """Small differences on top of large common scores: flat behind a bound, kept without one."""

    name = "own softcap"
    order = 35
    fills = ("softcap.value", "softcap.form", "softcap.residual")

    def run(self, bench: Bench) -> None:
        """Read the slopes at every height, and fit a bound if they fall."""
        note = bench.notebook
        if note.get("softmax.axis") != "keys" or note.get("softmax.times", 1) != 1:
            return
        value = note.get("scale.value")
        if value is None or value == 0.0 or bench.normalises or note.get("scale.varies"):
            return
        heights, seen, asked = ramp(bench, value, _HEIGHTS)
        slopes = np.sum(seen * asked, axis=-1) / np.sum(asked * asked, axis=-1)
        known = np.isfinite(slopes)
        if not known.any():
            return
        slack = 2e-3 + 32.0 * bench.eps * np.abs(heights)
        if bool(np.all(np.abs(slopes[known] - 1.0) <= slack[known])):
            return
        best = _fitted(heights[known], seen[known], asked[known])
        note.write(softcap__value=best[1], softcap__form=best[0], softcap__residual=best[2])
        if best[0] == "other":
            raise NotReady("large scores count for less, in no form that is known")


def ramp(bench: Bench, scale: float, heights: tuple[float, ...]) -> tuple[Floats, Floats, Floats]:
    """Return heights (both signs), and differences of scores there: as seen, and as asked for.

    A score is height + step: the height is one feature of the query, the steps are another of
    the keys, so that the steps are the same at every height.
    """
    every = np.asarray([*(-h for h in reversed(heights[1:])), *heights])
    sizes = bench.sizes
    steps = np.linspace(-0.5, 0.5, sizes.keys)
    key = np.zeros((sizes.batch, sizes.kv_heads, sizes.keys, sizes.head_dim))
    key[..., 0], key[..., 1] = 1.0, steps
    rows = np.resize(np.arange(len(every)), -(-len(every) // sizes.queries) * sizes.queries)
    found = []
    for start in range(0, len(rows), sizes.queries):
        query = np.zeros((sizes.batch, sizes.heads, sizes.queries, sizes.head_dim))
        query[..., 0] = every[rows[start : start + sizes.queries]] / scale
        query[..., 1] = 1.0 / scale
        scores = bench.log_weights(bench.weights(query, bench.subject.rounded(key)))[0, 0]
        if bench.notebook.get("bias.kind", "none") != "none":
            scores = scores - bench.log_weights(bench.weights(np.zeros_like(query), key))[0, 0]
        found.append(scores - scores.mean(axis=-1, keepdims=True))
    seen = np.concatenate(found)[: len(every)]
    asked = np.broadcast_to(steps - steps.mean(), seen.shape)
    return every, seen, asked


def _fitted(heights: Floats, seen: Floats, asked: Floats) -> tuple[str, float, float]:
    """Return form, value and residual of the bound that explains the differences best."""
    whole = heights[:, None] + asked
    best = ("other", float(np.max(np.abs(whole))), np.inf)
    for form in ("tanh", "clamp"):
        low, high = np.log(0.5), np.log(1e5)
        for _ in range(4):
            grid = np.linspace(low, high, 81)
            off = [_residual(whole, seen, float(np.exp(g)), form) for g in grid]
            at = int(np.argmin(off))
            low, high = grid[max(at - 1, 0)], grid[min(at + 1, 80)]
        value, residual = float(np.exp(grid[at])), float(off[at])
        if residual < best[2]:
            best = (form, value, residual)
    if best[2] > 2e-2:
        return "other", best[1], best[2]
    return best


def _residual(whole: Floats, seen: Floats, value: float, form: str) -> float:
    scores = capped(whole, value, form)
    return float(np.sqrt(np.mean((seen - scores + scores.mean(axis=-1, keepdims=True)) ** 2)))
