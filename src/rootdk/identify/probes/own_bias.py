"""What a function adds to the scores unasked: with query 0, only that is left."""

from __future__ import annotations

import numpy as np

from rootdk.identify.bench import Bench
from rootdk.identify.fitting import AXES, centred
from rootdk.identify.probes._base import Probe
from rootdk.identify.subject import Floats

__all__ = ["OwnBias", "alibi_slopes"]


class OwnBias(Probe):
    """Weights at query = 0: equal unless there is a bias. Linear ones are told from others."""

    name = "own bias"
    order = 25
    fills = ("bias.kind", "bias.largest", "bias.slopes", "bias.standard_slopes")

    def run(self, bench: Bench) -> None:
        """Read the weights of one call, and of another with other keys."""
        note = bench.notebook
        axis = note.get("softmax.axis")
        if axis not in ("keys", "queries"):
            return
        query, key = bench.query_key(bench.sizes)
        scores = bench.log_weights(bench.weights(np.zeros_like(query), key))
        relative = centred(scores, AXES[axis])
        largest = (
            float(np.nanmax(relative) - np.nanmin(relative)) if np.isfinite(relative).any() else 0.0
        )
        if largest <= bench.tolerance():
            note.write(bias__kind="none", bias__largest=0.0)
            return
        note.write(bias__largest=largest, **_kind(relative, bench))
        query, key = np.zeros_like(query), np.zeros_like(key)
        value = np.zeros((*key.shape[:3], bench.sizes.value_dim))
        value[:, :, 0, 0] = 1.0
        value[:, :, 1, 1] = 1.0
        bench.witness(
            "bias",
            "query and key are 0, so that only what the function adds is left: the log-ratio of "
            "the weights of the first two keys, a head, in the last row",
            query,
            key,
            value,
            seen="np.log(output[0, :, -1, 1] / output[0, :, -1, 0])",
            expected=f"np.zeros({bench.sizes.heads})",
        )


def _kind(relative: Floats, bench: Bench) -> dict[str, object]:
    slack = 4.0 * bench.tolerance()
    keys = np.arange(relative.shape[-1], dtype=np.float64)
    steps = np.diff(relative, axis=-1)
    slopes = np.nanmean(steps, axis=(0, 2, 3))
    if float(np.nanmax(np.abs(steps - slopes[None, :, None, None]))) <= slack:
        found = tuple(float(slope) for slope in slopes)
        right = np.allclose(np.abs(slopes), alibi_slopes(len(slopes)), rtol=1e-3)
        return {"bias__kind": "alibi", "bias__slopes": found, "bias__standard_slopes": bool(right)}
    queries = np.arange(relative.shape[-2], dtype=np.float64)
    shift = len(keys) - len(queries)
    for offset in (0.0, float(shift)):
        distance = np.abs(keys[None, :] - queries[:, None] - offset)
        slope = _slope(relative, distance)
        if slope is not None and _off(relative, slope, distance) <= slack:
            found = tuple(float(-one) for one in slope)
            right = np.allclose(np.abs(slope), alibi_slopes(len(slope)), rtol=1e-3)
            return {
                "bias__kind": "alibi",
                "bias__slopes": found,
                "bias__standard_slopes": bool(right),
            }
    return {"bias__kind": "relative" if _is_relative(relative, slack) else "per-position"}


def _slope(relative: Floats, distance: Floats) -> Floats | None:
    """Return minus the slope on a distance, a head."""
    x = centred(np.broadcast_to(distance, relative.shape), -1, relative)
    weight = np.nansum(x * x, axis=(0, 2, 3))
    if (weight == 0.0).any():
        return None
    return np.asarray(np.nansum(x * relative, axis=(0, 2, 3)) / weight)


def _off(relative: Floats, slope: Floats, distance: Floats) -> float:
    x = centred(np.broadcast_to(distance, relative.shape), -1, relative)
    return float(np.nanmax(np.abs(relative - slope[None, :, None, None] * x)))


def _is_relative(relative: Floats, slack: float) -> bool:
    """Whether steps from key to key depend on key − query alone."""
    steps = np.diff(relative, axis=-1)
    off = np.abs(steps[..., 1:, 1:] - steps[..., :-1, :-1])
    return bool(off.size) and float(np.nanmax(off)) <= slack


def alibi_slopes(heads: int) -> Floats:
    """Return the slopes of Press et al. 2022 for a power of two heads, 2^(−8h/H) for others.

    Examples
    --------
    >>> alibi_slopes(4)
    array([0.25      , 0.0625    , 0.015625  , 0.00390625])
    """
    closest = 2 ** int(np.floor(np.log2(heads)))
    slopes = [2.0 ** (-8.0 * (h + 1) / closest) for h in range(closest)]
    # For other numbers of heads every second slope of twice as many is taken, as in the paper.
    slopes += [2.0 ** (-4.0 * (h + 1) / closest) for h in range(0, 2 * closest, 2)]
    return np.asarray(slopes[:heads])
