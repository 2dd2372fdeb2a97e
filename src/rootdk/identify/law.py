"""The law through measured scales: one exponent a size, each with its uncertainty, and a name."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rootdk.records import Estimate, ScaleLaw, ScalePoint, Sizes

__all__ = ["RULES", "fit_law", "rules_that_fit"]

TOLERANCE = 1e-3
"""The relative distance within which a scale is taken for a law's."""

_VARIABLES = ("head_dim", "keys", "queries", "heads", "batch", "value_dim")


@dataclass(frozen=True)
class Rule:
    """A known law: its symbols and its value at some sizes."""

    name: str
    formula: str

    def value(self, sizes: Sizes) -> float:
        """The scale at those sizes."""
        return float(eval_rule(self.formula, sizes))


def eval_rule(formula: str, sizes: Sizes) -> float:
    """Return an arithmetic expression of the sizes."""
    from rootdk._lib.expressions import evaluate

    names = {name: float(getattr(sizes, name)) for name in (*_VARIABLES, "hidden", "kv_heads")}
    return evaluate(formula, names)


RULES = (
    Rule("1/√head_dim", "1/sqrt(head_dim)"),
    Rule("1", "1"),
    Rule("1/head_dim", "1/head_dim"),
    Rule("1/√(heads·head_dim)", "1/sqrt(hidden)"),
    Rule("1/√keys", "1/sqrt(keys)"),
    Rule("1/√queries", "1/sqrt(queries)"),
    Rule("1/√heads", "1/sqrt(heads)"),
    Rule("1/√batch", "1/sqrt(batch)"),
    Rule("1/√value_dim", "1/sqrt(value_dim)"),
    Rule("√head_dim", "sqrt(head_dim)"),
    Rule("log(keys)/√head_dim", "log(keys)/sqrt(head_dim)"),
    Rule("log2(keys)/√head_dim", "log2(keys)/sqrt(head_dim)"),
)
"""Laws that have a name of their own; any other power law is spelled out from its exponents."""


def rules_that_fit(points: Sequence[ScalePoint]) -> list[str]:
    """Return the names of the known laws that every point is within the tolerance of."""
    # Where value_dim was always head_dim, its laws are those of head_dim again.
    tied = all(point.sizes.value_dim == point.sizes.head_dim for point in points)
    return [
        rule.name
        for rule in RULES
        if all(_close(point.scale, rule.value(point.sizes)) for point in points)
        and not (tied and "value_dim" in rule.formula)
    ]


def fit_law(points: Sequence[ScalePoint]) -> ScaleLaw:
    """Return the power law through the points.

    Each exponent is fitted where only its size changes from the first point on, so that a
    misfit of one does not spoil the others.
    """
    first = points[0]
    width = _exponent("value_dim", first, points)
    level = [_at_width(p, first.sizes.value_dim, width.value) for p in points]
    exponents = {name: _exponent(name, first, level) for name in _VARIABLES[:-1]}
    exponents["value_dim"] = width
    powers = {name: estimate.value for name, estimate in exponents.items()}
    constant = first.scale / _power(first.sizes, powers)
    misfit = max(
        (_distance(p.scale, constant * _power(p.sizes, powers)) for p in points), default=0.0
    )
    names = rules_that_fit(points)
    if not names and misfit <= TOLERANCE:
        names = list(_spelled(points, powers))
    off = sum(abs(e.uncertainty * math.log(getattr(first.sizes, n))) for n, e in exponents.items())
    return ScaleLaw(
        constant=Estimate(value=constant, uncertainty=abs(constant) * off),
        misfit=misfit,
        name=names[0] if names else None,
        readings=tuple(names),
        steps=misfit > TOLERANCE and not names,
        **exponents,
    )


def _exponent(name: str, first: ScalePoint, points: Sequence[ScalePoint]) -> Estimate:
    """Return the exponent of one size, from the points that differ from the first only there."""
    x, y, noise = [], [], []
    for point in points[1:]:
        if not _only_differs_in(name, first.sizes, point.sizes):
            continue
        if first.scale == 0.0 or point.scale / first.scale <= 0.0:
            continue
        x.append(math.log(getattr(point.sizes, name) / getattr(first.sizes, name)))
        y.append(math.log(point.scale / first.scale))
        noise.append(math.hypot(point.uncertainty / point.scale, first.uncertainty / first.scale))
    if not x:
        return Estimate(value=0.0, uncertainty=math.inf)
    total = float(np.dot(x, x))
    value = float(np.dot(x, y)) / total
    scatter = float(np.max(np.abs(np.asarray(y) - value * np.asarray(x))))
    spread = math.sqrt(total)
    return Estimate(value=value, uncertainty=(scatter + max(noise)) / spread)


def _at_width(point: ScalePoint, value_dim: int, power: float) -> ScalePoint:
    """Return what a point would be with values of another width; long runs need wider ones."""
    return replace(point, scale=point.scale * (value_dim / point.sizes.value_dim) ** power)


def _only_differs_in(name: str, one: Sizes, other: Sizes) -> bool:
    follows = {"heads": {"kv_heads"}, "head_dim": {"value_dim"}}.get(name, set())
    if name == "keys" and one.keys == one.queries and other.keys == other.queries:
        follows = {"queries"}
    fields = ("batch", "heads", "kv_heads", "queries", "keys", "head_dim", "value_dim")
    changed = {f for f in fields if getattr(one, f) != getattr(other, f)}
    free = set() if name == "value_dim" else {"value_dim"}
    return name in changed and changed - follows - free == {name}


def _power(sizes: Sizes, powers: dict[str, float]) -> float:
    return float(math.prod(float(getattr(sizes, n)) ** power for n, power in powers.items()))


_NICE = (-2.0, -1.5, -1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0)
_SYMBOLS = {
    -2.0: "1/{}²",
    -1.5: "1/{}^1.5",
    -1.0: "1/{}",
    -0.75: "1/{}^0.75",
    -0.5: "1/√{}",
    -0.25: "1/{}^0.25",
    0.25: "{}^0.25",
    0.5: "√{}",
    1.0: "{}",
}


def _spelled(points: Sequence[ScalePoint], powers: dict[str, float]) -> Iterator[str]:
    """Yield the law written out, if its exponents are ones that a person would write."""
    nice = {name: min(_NICE, key=lambda n, p=power: abs(n - p)) for name, power in powers.items()}  # type: ignore[misc]
    first = points[0]
    constant = first.scale / _power(first.sizes, nice)
    if all(_close(p.scale, constant * _power(p.sizes, nice)) for p in points):
        parts = [_SYMBOLS[power].format(name) for name, power in nice.items() if power]
        if not _close(constant, 1.0) or not parts:
            parts.insert(0, f"{constant:.5g}")
        yield "·".join(parts)


def _close(one: float, other: float) -> bool:
    return _distance(one, other) <= TOLERANCE


def _distance(one: float, other: float) -> float:
    return abs(one / other - 1.0) if other else (0.0 if one == 0.0 else math.inf)
