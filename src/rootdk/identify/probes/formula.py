"""Does what was found out give the function's output? If not, it was not understood."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rootdk.identify.bench import Bench, NotReady
from rootdk.identify.law import eval_rule
from rootdk.identify.model import Model
from rootdk.identify.probes._base import Probe
from rootdk.identify.subject import Floats, Refused
from rootdk.identify.wording import formula_of
from rootdk.records import Agreement, ScaleLaw, Sizes

__all__ = ["Formula"]


class Formula(Probe):
    """An output recomputed from the facts alone against the function's, at two sets of sizes."""

    name = "formula"
    order = 55
    fills = ("verified",)

    def run(self, bench: Bench) -> None:
        """Build the model, and keep it if it agrees."""
        try:
            self._compare(bench)
        except NotReady:
            note = bench.notebook
            unknown = note.get("scale.value") is None
            if unknown and note.facts.pop("softmax.factor", None) is not None:
                # A common sum of rows is no factor of a softmax that was not found.
                note.facts.pop("softmax.factor_law", None)
                note.write(softmax__axis="unknown")
            raise

    def _compare(self, bench: Bench) -> None:
        model = _model(bench)
        worst: Agreement | None = None
        for sizes in _two_sizes(bench):
            try:
                one = _compared(bench, model, sizes)
            except Refused as refusal:
                bench.refused(self.name, "random inputs of moderate size", refusal)
                continue
            if worst is None or one.difference / one.bound > worst.difference / worst.bound:
                worst = one
        bench.notebook.verified = worst
        if worst is None or not worst.agrees:
            raise NotReady("an output computed from what was found differs from the function's")
        bench.model = model
        bench.formula = formula_of(bench.notebook)


def _model(bench: Bench) -> Model:
    note = bench.notebook
    if note.get("scale.value") is None:
        raise NotReady("the scale is not known")
    if note.get("softmax.axis") not in ("keys", "queries", "heads", "batch"):
        raise NotReady("no axis is known over which the weights are a softmax")
    if note.get("softcap.form") == "other":
        raise NotReady("large scores count for less, in no form that is known")
    if note.get("softmax.sink_follows_maximum"):
        raise NotReady("the further term of the denominator follows the row's maximum")
    cap = note.get("softcap.value")
    sink = note.get("softmax.sink")
    factor, law = note.get("softmax.factor", 1.0), note.get("softmax.factor_law")
    return Model(
        scale=_scale_function(bench),
        factor=lambda sizes: value_at(law, factor, bench.sizes, sizes),
        softcap=None if cap is None else (cap, note.get("softcap.form")),
        bias=_bias_function(bench),
        visible=_visible(bench),
        normalises=bench.normalises,
        axis=note.get("softmax.axis"),
        times=note.get("softmax.times", 1),
        renormalised=bool(note.get("softmax.renormalised")),
        sink=None if sink is None else np.asarray(sink),
    )


def value_at(law: ScaleLaw | None, value: float, base: Sizes, sizes: Sizes) -> float:
    """Return what a law gives at some sizes; the measured value at those it was measured at."""
    if law is None or sizes == base:
        return value
    for name in law.readings:
        formula = law_formulas().get(name)
        if formula is not None:
            return eval_rule(formula, sizes)
    powers = {
        "head_dim": law.head_dim,
        "keys": law.keys,
        "queries": law.queries,
        "heads": law.heads,
        "batch": law.batch,
    }
    found = value
    for name, power in powers.items():
        found *= (getattr(sizes, name) / getattr(base, name)) ** power.value
    return float(found)


def law_formulas() -> dict[str, str]:
    """Return the expressions of the known laws by name."""
    from rootdk.identify.law import RULES

    return {rule.name: rule.formula for rule in RULES}


def _scale_function(bench: Bench) -> Callable[[Sizes], float | Floats]:
    note = bench.notebook
    value, law = note.get("scale.value"), note.get("scale.law")
    varies = note.get("scale.varies", ())
    if not varies:
        return lambda sizes: value_at(law, value, bench.sizes, sizes)
    one = varies[0]
    if one.along == "channel":
        raise NotReady("the scale differs from channel to channel")
    shape = {"batch": (-1, 1, 1, 1), "head": (1, -1, 1, 1), "query": (1, 1, -1, 1), "key": (-1,)}
    if one.along not in shape:
        raise NotReady("the scale differs from one stretch of keys to the next")
    scales = np.asarray([one.scales[0], *one.scales] if one.along == "key" else one.scales)
    return lambda sizes: scales.reshape(shape[one.along])


def _bias_function(bench: Bench) -> Callable[[Sizes], Floats] | None:
    """Return what is added at the base sizes, as it was seen at query = 0."""
    if bench.notebook.get("bias.kind", "none") == "none":
        return None

    def added(sizes: Sizes) -> Floats:
        query = np.zeros((sizes.batch, sizes.heads, sizes.queries, sizes.head_dim))
        key = np.zeros((sizes.batch, sizes.kv_heads, sizes.keys, sizes.head_dim))
        scores = bench.log_weights(bench.weights(query, key))
        return np.where(np.isfinite(scores), scores, 0.0)

    return added


def _visible(bench: Bench) -> Callable[[Sizes], Any] | None:
    """Return which keys the plain call shows, as it was seen at query = 0."""
    query, key = bench.query_key(bench.sizes, bench.amplitude)
    seen = bench.weights(query, key) > 0.0
    if seen.all():
        return None

    def shown(sizes: Sizes) -> object:
        query = np.zeros((sizes.batch, sizes.heads, sizes.queries, sizes.head_dim))
        key = np.ones((sizes.batch, sizes.kv_heads, sizes.keys, sizes.head_dim))
        return bench.weights(query, key) > 0.0

    return shown


def _two_sizes(bench: Bench) -> list[Sizes]:
    if bench.notebook.get("scale.varies"):
        return [bench.sizes]
    points = bench.notebook.get("scale.points")
    lengths = [p.sizes for p in points if p.sizes.keys not in (bench.sizes.keys,)]
    return [bench.sizes, *lengths[:1], *sorted(lengths, key=lambda s: -s.keys)[:1]]


def _compared(bench: Bench, model: Model, sizes: Sizes) -> Agreement:
    value = bench.notebook.get("scale.value") or 1.0
    amplitude = 1.5 / (abs(value) * np.sqrt(sizes.head_dim)) if not bench.normalises else 1.0
    query, key = bench.query_key(sizes, amplitude)
    values = bench.random_value(sizes)
    seen = bench.subject.output(query, key, values)
    said = model.output(query, key, values)
    difference = float(np.max(np.abs(seen - said)))
    bound = (5e-4 + 64.0 * bench.eps) * float(np.max(np.abs(values)))
    if not np.isfinite(difference):
        difference = float("inf")
    return Agreement(what="formula and function", difference=difference, bound=bound)
