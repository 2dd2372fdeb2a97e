"""A finite bias, and one of −inf: what each acts as."""

from __future__ import annotations

import math

import numpy as np

from rootdk.identify.bench import Bench
from rootdk.identify.fitting import centred
from rootdk.identify.masks import expected_weights, moderate
from rootdk.identify.probes._base import Probe
from rootdk.identify.probes.boolean_mask import mixed_mask
from rootdk.identify.subject import Refused
from rootdk.records import ScalePoint

__all__ = ["AdditiveBias"]

_SHAPES = (
    ("batch", "heads", "queries", "keys"),
    ("batch", "-heads", "queries", "keys"),
    ("-batch", "heads", "queries", "keys"),
    ("-batch", "-heads", "queries", "keys"),
)


class AdditiveBias(Probe):
    """Log-weights at query 0 on the bias: a slope of 1, or what the bias was multiplied by."""

    name = "bias"
    order = 62
    fills = ("mask.bias_argument", "mask.bias_factor", "mask.bias_factor_law", "mask.bias_leak")

    def run(self, bench: Bench) -> None:
        """Fit the slope at two head_dims; then hide keys with −inf."""
        note = bench.notebook
        meaning = next((m for m in ("bias", "mask") if bench.subject.takes(m)), None)
        axis = note.get("softmax.axis")
        if meaning is None or axis not in ("keys", "unknown"):
            return
        if meaning == "mask" and note.get("mask.leak"):
            return  # a mask that does not hide; as a bias it would be the same numbers again
        factor = self._factor(bench, meaning)
        if factor is None:
            return
        if abs(factor) <= 1e-6:
            if meaning == "bias":
                note.write(mask__bias_factor=0.0)
            return
        bench.bias_meaning = meaning
        note.write(
            mask__bias_argument=bench.subject.own_name(meaning),
            mask__bias_factor=factor,
            mask__bias_factor_law=self._law(bench, meaning, factor),
        )
        self._witness(bench, meaning)
        self._infinite(bench, meaning)

    def _factor(self, bench: Bench, meaning: str) -> float | None:
        shapes = bench.subject.shapes
        before = shapes.get(meaning)
        for shape in _SHAPES:
            layout = bench.subject.layout
            present = tuple(
                f"-{axis}" if (axis == "batch" and not layout.has("b"))
                or (axis == "heads" and not layout.has("h")) else axis
                for axis in shape
            )  # fmt: skip
            shapes[meaning] = present
            try:
                return self._slope(bench, meaning, bench.sizes.head_dim)
            except Refused as refusal:
                bench.refused(self.name, "a finite additive bias", refusal)
        if before is None:
            shapes.pop(meaning, None)
        else:
            shapes[meaning] = before
        return None

    def _slope(self, bench: Bench, meaning: str, head_dim: int) -> float | None:
        sizes = bench.with_sizes(head_dim=head_dim)
        query, key = bench.query_key(sizes)
        query = np.zeros_like(query) if not bench.normalises else query
        shape = (1, 1, sizes.queries, sizes.keys)
        bias = bench.subject.rounded(bench.rng.standard_normal(shape))
        seen = bench.log_weights(bench.weights(query, key, **{meaning: bias}))
        plain = bench.log_weights(bench.weights(query, key))
        change = centred(seen - plain, -1)
        asked = centred(np.broadcast_to(bias, change.shape), -1, change)
        weight = float(np.nansum(asked * asked))
        if not weight:
            return None
        factor = float(np.nansum(asked * change)) / weight
        off = float(np.nanmax(np.abs(change - factor * asked)))
        return factor if off <= 4.0 * bench.tolerance(3.0 * max(abs(factor), 1.0)) else None

    def _law(self, bench: Bench, meaning: str, factor: float) -> str | None:
        """Return what a factor other than 1 is: the scale, if it is that at two head_dims."""
        if abs(factor - 1.0) <= 1e-3:
            return "1"
        if abs(factor - math.log(2.0)) <= 1e-3:
            return "ln 2"
        law, value = bench.notebook.get("scale.law"), bench.notebook.get("scale.value")
        if law is None or value is None:
            return None
        point = next(
            (p for p in law_points(bench) if p.sizes.head_dim != bench.sizes.head_dim), None
        )
        if point is None or abs(factor / value - 1.0) > 1e-3:
            return None
        try:
            other = self._slope(bench, meaning, point.sizes.head_dim)
        except Refused:
            return None
        same = other is not None and abs(other / point.scale - 1.0) <= 1e-3
        return "the scale" if same else None

    def _infinite(self, bench: Bench, meaning: str) -> None:
        query, key = moderate(bench)
        mask = mixed_mask(bench)
        bias = np.where(mask, 0.0, -np.inf)
        try:
            seen = bench.weights(query, key, **{meaning: bias})
        except Refused as refusal:
            bench.refused(self.name, "a bias of −inf", refusal)
            return
        leak = float(np.max(np.where(mask, 0.0, np.abs(seen))))
        right = expected_weights(bench, query, key, mask=mask)
        note = bench.notebook
        note.write(mask__bias_leak=leak if leak > 1e-6 or math.isnan(leak) else 0.0)
        bench.minus_infinity_hides = bool(np.max(np.abs(seen - right)) < 2e-3)

    def _witness(self, bench: Bench, meaning: str) -> None:
        sizes = bench.sizes
        query = np.zeros((sizes.batch, sizes.heads, sizes.queries, sizes.head_dim))
        key = np.zeros((sizes.batch, sizes.kv_heads, sizes.keys, sizes.head_dim))
        value = np.zeros((sizes.batch, sizes.kv_heads, sizes.keys, sizes.value_dim))
        value[..., 0, 0], value[..., 1, 1] = 1.0, 1.0
        bias = np.zeros((1, 1, sizes.queries, sizes.keys))
        bias[..., 1] = 1.0
        bench.witness(
            "mask.bias_factor",
            "query and key are 0 and the bias of the second key is 1: the log-ratio of the first "
            "two weights is what a bias of 1 acts as",
            query,
            key,
            value,
            seen="np.log(output[0, 0, 0, 1] / output[0, 0, 0, 0])",
            expected="1.0",
            asked={meaning: bias},
        )


def law_points(bench: Bench) -> list[ScalePoint]:
    """Return the measured points of the scale."""
    return list(bench.notebook.get("scale.points", ()))
