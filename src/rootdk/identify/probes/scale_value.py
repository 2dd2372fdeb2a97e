"""The effective scale at the base sizes, and whether it is one number."""

from __future__ import annotations

import dataclasses

import numpy as np

from rootdk.identify.bench import Bench, NotReady
from rootdk.identify.fitting import AXES, Fit, centred, fit, in_regime
from rootdk.identify.model import softmax
from rootdk.identify.probes._base import Probe
from rootdk.identify.subject import Floats
from rootdk.identify.variation import variations
from rootdk.records import ScalePoint

__all__ = ["SMALL", "ScaleValue"]

SMALL = 0.25
"""Nats of spread at which a softcap of any use is still straight."""
_LARGE = 3.0


class ScaleValue(Probe):
    """The slope of log-weight ratios on differences of q·k, small and large, and doubled."""

    name = "scale"
    order = 30
    fills = (
        "scale.value",
        "scale.points",
        "scale.linear",
        "scale.normalised",
        "scale.varies",
        "softmax.times",
        "softmax.renormalised",
    )

    def run(self, bench: Bench) -> None:
        """Fit a line; where there is none, find out why."""
        for _ in range(3):
            try:
                self._measure(bench)
                return
            except _Again:
                continue

    def _measure(self, bench: Bench) -> None:
        note = bench.notebook
        axis = note.get("softmax.axis")
        if axis == "unknown":
            axis = "keys"  # a ratio within a row needs no sum
        if axis not in AXES:
            raise NotReady("no axis is known over which the weights are a softmax")
        if note.get("softmax.lowest_weight", 0.0) < 0.0:
            raise NotReady("some weights are negative")
        small = in_regime(bench, bench.sizes, SMALL, axis=axis)
        if small.spread < 1e-6:
            self._require_whole(bench, axis)
            self._constant(bench, small)
            return
        normalises = self._normalises(bench, small, axis)
        if normalises:
            small = self._as_cosine(bench, small, axis, normalises)
        note.write(scale__normalised=bool(normalises))
        bench.normalises = normalises
        if not small.is_line(bench):
            found = variations(bench, small, axis)
            if not found:
                self._why_no_line(bench, small, axis)
            note.write(scale__varies=found)
        self._large(bench, small, axis, normalises)
        value = small.slope
        point = ScalePoint(
            sizes=bench.sizes, scale=value, uncertainty=small.uncertainty, residual=small.residual
        )
        note.write(scale__value=value, scale__points=(point,))
        bench.amplitude = small.amplitude
        self._witness(bench, axis)

    def _require_whole(self, bench: Bench, axis: str) -> None:
        """Raise where keys have a weight or none by query and key: the best few of a row, say."""
        query, key = bench.query_key(bench.sizes)
        if fit(bench, query, key, axis=axis).lost:
            raise NotReady("which weights are 0 depends on query and key")

    def _constant(self, bench: Bench, small: Fit) -> None:
        point = ScalePoint(sizes=bench.sizes, scale=0.0, uncertainty=0.0, residual=small.residual)
        bench.notebook.write(scale__value=0.0, scale__points=(point,), scale__linear=True)
        raise NotReady("the weights do not depend on query and key")

    def _normalises(self, bench: Bench, small: Fit, axis: str) -> tuple[str, ...]:
        """Return the operands whose length does not matter."""
        found = []
        for name, query, key in (
            ("query", 2.0 * small.query, small.key),
            ("key", small.query, 2.0 * small.key),
        ):
            doubled = fit(bench, query, key, axis=axis)
            ratio = doubled.spread / small.spread if small.spread else 0.0
            if abs(ratio - 1.0) < 1e-3:
                found.append(name)
        return tuple(found)

    def _as_cosine(self, bench: Bench, small: Fit, axis: str, normalises: tuple[str, ...]) -> Fit:
        query, key = bench.query_key(bench.sizes)
        found = fit(bench, query, key, axis=axis, normalises=normalises)
        return dataclasses.replace(found, amplitude=small.amplitude)

    def _large(self, bench: Bench, small: Fit, axis: str, normalises: tuple[str, ...]) -> None:
        """See whether the line goes on to where the softmax is sharp."""
        note = bench.notebook
        if normalises or note.get("scale.varies") or note.get("softmax.times", 1) != 1:
            note.write(scale__linear=not note.get("scale.varies") or None)
            note.facts.setdefault("softmax.times", 1)
            return
        large = in_regime(
            bench, bench.sizes, _LARGE, start=small.amplitude * _LARGE / small.spread, axis=axis
        )
        straight = large.is_line(bench) and abs(large.slope / small.slope - 1.0) < max(
            1e-3, bench.eps
        )
        if not straight and axis == "keys":
            if self._is_twice(bench, large):
                return
            if self._is_renormalised(bench, large):
                return
        note.write(scale__linear=straight, softmax__times=1)

    def _is_twice(self, bench: Bench, large: Fit) -> bool:
        """Whether the weights are a softmax of a softmax: undone once, they give a line."""
        note = bench.notebook
        note.write(softmax__times=2)
        inner = in_regime(bench, bench.sizes, 1.0, start=large.amplitude)
        straight = inner.residual <= max(50.0 * bench.tolerance(inner.reach), 0.02)
        if straight and inner.spread > 0.5:
            note.write(scale__linear=True)
            raise _Again
        note.write(softmax__times=1)
        return False

    def _is_renormalised(self, bench: Bench, large: Fit) -> bool:
        """Whether an axis over queries was normalised first, and rows afterwards."""
        columns = _without_columns(large.scores)
        x = _without_columns(large.products)
        weight = float(np.nansum(x * x))
        slope = float(np.nansum(x * columns)) / weight if weight else 0.0
        if float(np.nanmax(np.abs(columns - slope * x))) > 4.0 * bench.tolerance(large.reach):
            return False
        first = softmax(slope * (large.query @ large.key.swapaxes(-1, -2)), "queries")
        again = first / first.sum(axis=-1, keepdims=True)
        seen = bench.weights(large.query, large.key)
        if float(np.max(np.abs(seen - again))) > 1e-3:
            return False
        bench.notebook.write(softmax__axis="queries", softmax__renormalised=True)
        raise _Again

    def _why_no_line(self, bench: Bench, small: Fit, axis: str) -> None:
        if axis == "keys":
            self._is_twice(bench, small)
            self._is_renormalised(bench, small)
        raise NotReady(
            f"log-weights are no linear function of q·k: they depart by {small.residual:.2g} nats "
            f"at a spread of {small.spread:.2g}"
        )

    def _witness(self, bench: Bench, axis: str) -> None:
        sizes, value = bench.sizes, bench.notebook.get("scale.value")
        length = _round_to_power(np.sqrt(1.0 / max(abs(value), 1e-12)))
        query = np.zeros((sizes.batch, sizes.heads, sizes.queries, sizes.head_dim))
        key = np.zeros((sizes.batch, sizes.kv_heads, sizes.keys, sizes.head_dim))
        seen = "np.log(output[0, 0, 0, 1] / output[0, 0, 0, 0])"
        if axis == "queries":
            query[..., 1, 0], key[..., 0] = length, length
            seen = "np.log(output[0, 0, 1, 0] / output[0, 0, 0, 0])"
        elif axis != "keys":
            return
        else:
            query[..., 0], key[..., 1, 0] = length, length
        values = np.zeros((sizes.batch, sizes.kv_heads, sizes.keys, sizes.value_dim))
        values[..., 0, 0], values[..., 1, 1] = 1.0, 1.0
        bench.witness(
            "scale",
            "the log-ratio of two weights over the difference of their products q·k is the "
            f"effective scale; head_dim is {sizes.head_dim}",
            query,
            key,
            values,
            seen=f"{seen} / {length * length:.9g}",
            expected=f"1 / np.sqrt({sizes.head_dim})",
        )


class _Again(Exception):
    """The structure turned out to be another one: measure anew."""


def _without_columns(values: Floats) -> Floats:
    return centred(centred(values, -1), -2)


def _round_to_power(value: float) -> float:
    return float(2.0 ** np.round(np.log2(value)))
