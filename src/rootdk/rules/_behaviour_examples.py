"""Behaviours for examples: a function with nothing wrong, measured, with named changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from rootdk.records import (
    Agreement,
    ArgumentFact,
    Behaviour,
    CallFacts,
    Estimate,
    HeadFacts,
    MaskFacts,
    PrecisionFacts,
    ScaleFacts,
    ScaleLaw,
    ScalePoint,
    Severity,
    Sizes,
    SoftmaxFacts,
)
from rootdk.rules._examples import Example

__all__ = [
    "argument",
    "behaving",
    "fires_of",
    "masking",
    "not_understood",
    "power",
    "precise",
    "scaling",
    "silent_of",
    "skips_of",
    "softened",
    "standard",
]

_SIZES = Sizes(batch=2, heads=6, kv_heads=6, queries=9, keys=13, head_dim=64, value_dim=20)

_TRIED = (
    _SIZES,
    replace(_SIZES, head_dim=24),
    replace(_SIZES, head_dim=40, keys=21),
    replace(_SIZES, heads=4, kv_heads=4),
    replace(_SIZES, queries=7),
    replace(_SIZES, batch=3),
    replace(_SIZES, value_dim=28),
    replace(_SIZES, keys=350),
)


def standard(sizes: Sizes) -> float:
    """Return 1/√head_dim."""
    return 1.0 / math.sqrt(sizes.head_dim)


def scales(at: Callable[[Sizes], float] = standard, **changes: Any) -> ScaleFacts:
    """Return the facts of a scale that follows a law at several sizes."""
    points = tuple(
        ScalePoint(sizes=sizes, scale=at(sizes), uncertainty=1e-6 * abs(at(sizes)), residual=1e-7)
        for sizes in _TRIED
    )
    return replace(ScaleFacts(value=points[0].scale, points=points, linear=True), **changes)


def power(head_dim: float, **exponents: float) -> ScaleLaw:
    """Return a fitted power law with these exponents, the rest zero."""

    def estimate(value: float) -> Estimate:
        return Estimate(value=value, uncertainty=1e-4)

    return ScaleLaw(
        constant=estimate(1.0),
        head_dim=estimate(head_dim),
        keys=estimate(exponents.get("keys", 0.0)),
        queries=estimate(exponents.get("queries", 0.0)),
        heads=estimate(exponents.get("heads", 0.0)),
        batch=estimate(exponents.get("batch", 0.0)),
        misfit=1e-5,
    )


def behaving(**changes: Any) -> Behaviour:
    """Return the behaviour of a function with nothing wrong, with changes."""
    healthy = Behaviour(
        name="kernels:attend",
        formula="softmax(q·kᵀ/√head_dim)·v",
        call=CallFacts(outcome="ok", shape=(2, 6, 9, 20), expected_shape=(2, 6, 9, 20), calls=90),
        scale=scales(),
        softmax=SoftmaxFacts(
            axis="keys",
            times=1,
            row_sum_min=1.0 - 1e-7,
            row_sum_max=1.0 + 1e-7,
            lowest_weight=0.0,
            linear_in_value=True,
        ),
        mask=MaskFacts(
            argument="mask",
            boolean="true_attends",
            documented="true_attends",
            leak=0.0,
            leak_shift=1e5,
            after_softmax=False,
            masked_sum_min=1.0,
            empty_rows=MappingProxyType({"mask": "zero"}),
        ),
        heads=HeadFacts(
            kv_heads=2,
            kv_map=(0, 0, 0, 1, 1, 1),
            pattern="repeated",
            swapped=False,
            neighbour_leak=0.0,
        ),
        precision=MappingProxyType(
            {"float32": PrecisionFacts(dtype="float32", error=1e-7, bound=1e-6)}
        ),
        deterministic=True,
        verified=Agreement(what="formula and function", difference=1e-7, bound=1e-6),
    )
    return replace(healthy, **changes)


def scaling(at: Callable[[Sizes], float], **changes: Any) -> Behaviour:
    """Return a behaviour with these scales; changes of the behaviour or of the scale."""
    own = {
        name: changes.pop(name)
        for name in ("varies", "normalised", "linear", "law", "apart")
        if name in changes
    }
    return behaving(scale=scales(at, **own), **changes)


def softened(**changes: Any) -> Behaviour:
    """Return a behaviour whose softmax differs in some facts."""
    healthy = behaving().softmax
    assert healthy is not None
    return behaving(softmax=replace(healthy, **changes))


def masking(expected: Mapping[str, object] | None = None, **changes: Any) -> Behaviour:
    """Return a behaviour whose masks differ in some facts."""
    healthy = behaving().mask
    assert healthy is not None
    facts = replace(healthy, **changes)
    return behaving(mask=facts, expected=MappingProxyType(dict(expected or {})))


def precise(dtype: str = "float32", **changes: Any) -> Behaviour:
    """Return a behaviour that differs in one dtype; ``dtype_asked`` is the behaviour's."""
    asked = changes.pop("dtype_asked", None)
    facts = replace(PrecisionFacts(dtype=dtype, error=1e-7, bound=1e-6), **changes)
    return behaving(precision=MappingProxyType({dtype: facts}), dtype_asked=asked)


def argument(meaning: str, effect: str, **changes: Any) -> Behaviour:
    """Return a behaviour with one argument of a meaning and its effect."""
    given: dict[str, Any] = {"name": meaning, "tried": f"{meaning}=0.3", "difference": 0.0}
    for name in ("name", "tried", "detail", "asked", "acted", "difference", "from_asked"):
        if name in changes:
            given[name] = changes.pop(name)
    fact = ArgumentFact(meaning=meaning, effect=effect, **given)  # type: ignore[arg-type]
    return behaving(arguments=MappingProxyType({fact.name: fact}), **changes)


def fires_of(
    title: str, severity: Severity, behaviour: Behaviour, *, says: tuple[str, ...] = ()
) -> Example:
    """Return an example of a function about which the rule must speak once, so."""
    return Example(
        title=title,
        outcome="fires",
        evidence={"behaviour": behaviour},
        severity=severity,
        says=says,
    )


def silent_of(title: str, behaviour: Behaviour | None = None) -> Example:
    """Return an example of a function that must be judged and found good."""
    return Example(title=title, outcome="silent", evidence={"behaviour": behaviour or behaving()})


def skips_of(title: str, behaviour: Behaviour, *, says: tuple[str, ...] = ()) -> Example:
    """Return an example of a function that cannot be judged, for a reason with these words."""
    return Example(title=title, outcome="skipped", evidence={"behaviour": behaviour}, says=says)


def not_understood(**changes: Any) -> Behaviour:
    """Return a behaviour whose facts do not reproduce the function's outputs."""
    off = Agreement(what="formula and function", difference=math.pi / 10, bound=1e-6)
    return behaving(verified=off, **changes)
