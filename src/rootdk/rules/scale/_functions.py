"""One verdict on the scale of a function; RDK101 to RDK108 and RDK111 each say their part of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rootdk.records import Behaviour, ScaleFacts, ScaleLaw, ScalePoint, Severity, Sizes
from rootdk.rules._base import Findings, Rule
from rootdk.rules._evidence import NotJudged
from rootdk.rules.scale._function_wording import (
    against_expected,
    along,
    apart,
    by_argument,
    by_no_law,
    by_the_law,
    impossible,
    one_factor_each,
)
from rootdk.rules.scale._laws import STANDARD

__all__ = ["FunctionLaw", "FunctionScaleRule", "FunctionVerdict", "classify_function"]

_TOLERANCE = 1e-3
_UNCERTAINTIES = 3.0
_VAGUE = 0.05
"""A point that is known to no better than this share of itself tells no laws apart."""

_EXPONENT = 0.02
"""Exponents of laws are multiples of a half; what is nearer to zero than this is zero."""


@dataclass(frozen=True, kw_only=True)
class FunctionLaw:
    """One way to choose a scale from the sizes of a call, and the rule that names it."""

    code: str | None
    formula: str
    at: Callable[[Sizes], float]


def _power(code: str | None, formula: str, exponent: float, *names: str) -> FunctionLaw:
    def at(sizes: Sizes) -> float:
        product = math.prod(float(getattr(sizes, name)) for name in names)
        return product**exponent

    return FunctionLaw(code=code, formula=formula, at=at)


LAWS: tuple[FunctionLaw, ...] = (
    _power(None, STANDARD, -0.5, "head_dim"),
    _power("RDK101", "1", 0.0, "head_dim"),
    _power("RDK104", "1/head_dim", -1.0, "head_dim"),
    FunctionLaw(code="RDK104", formula="2/head_dim", at=lambda s: 2.0 / s.head_dim),
    _power("RDK103", "1/√(heads·head_dim)", -0.5, "heads", "head_dim"),
    _power("RDK103", "1/√(kv_heads·head_dim)", -0.5, "kv_heads", "head_dim"),
    _power("RDK103", "1/(heads·head_dim)", -1.0, "heads", "head_dim"),
    _power("RDK107", "1/√heads", -0.5, "heads"),
    _power("RDK107", "1/√kv_heads", -0.5, "kv_heads"),
    _power("RDK107", "1/heads", -1.0, "heads"),
    _power("RDK105", "1/√keys", -0.5, "keys"),
    _power("RDK105", "1/√queries", -0.5, "queries"),
    _power("RDK105", "1/keys", -1.0, "keys"),
    _power("RDK105", "1/queries", -1.0, "queries"),
    _power("RDK106", "√head_dim", 0.5, "head_dim"),
    _power("RDK106", "head_dim", 1.0, "head_dim"),
    FunctionLaw(code="RDK106", formula="head_dim/2", at=lambda s: s.head_dim / 2.0),
    _power("RDK106", "√(heads·head_dim)", 0.5, "heads", "head_dim"),
    _power("RDK108", "1/√value_dim", -0.5, "value_dim"),
    _power("RDK108", "1/√batch", -0.5, "batch"),
    FunctionLaw(
        code="RDK111",
        formula="log(keys)/√head_dim",
        at=lambda s: math.log(s.keys) / math.sqrt(s.head_dim),
    ),
)


@dataclass(frozen=True, kw_only=True)
class FunctionVerdict:
    """What there is to say of a function's scale: one code, or none when all is well."""

    code: str | None = None
    severity: Severity = Severity.WARNING
    message: str = ""
    excuse: str | None = None
    law: str | None = None
    readings: tuple[str, ...] = ()
    fact: str = "scale"


def classify_function(behaviour: Behaviour) -> FunctionVerdict:
    """Return the one verdict on the scale of a function.

    Raises
    ------
    NotJudged
        If the scale was not measured, or is part of something that was not understood.
    """
    scale = behaviour.scale
    if scale is None:
        raise NotJudged("the scale of the function was not measured")
    if scale.apart:
        return FunctionVerdict(code="RDK111", severity=Severity.ERROR, message=apart(scale))
    if behaviour.scale_as_expected:
        return FunctionVerdict(readings=_formulas(scale))
    if _odd_rows(behaviour):
        raise NotJudged("rows of weights sum to nothing that a softmax gives, so no score is known")
    return next(_verdicts(behaviour, scale), FunctionVerdict(readings=_formulas(scale)))


def _verdicts(behaviour: Behaviour, scale: ScaleFacts) -> Iterator[FunctionVerdict]:
    """Yield what deviates, the gravest first."""
    if impossible(scale.value) and behaviour.scale_as_expected is None:
        yield FunctionVerdict(
            code="RDK108", severity=Severity.ERROR, message=impossible(scale.value)
        )
    yield from _varying(behaviour, scale)
    if scale.normalised and behaviour.scale_as_expected is None:
        raise NotJudged(
            f"query and key are normalised to length 1 and their cosine is multiplied by "
            f"{scale.value:.6g}; 1/√head_dim is no measure for that"
        )
    if not behaviour.understood and scale.linear is not True:
        raise NotJudged("the scores are no linear function of q·k, so one number says nothing")
    yield from _by_law(behaviour, scale)
    yield from _by_argument(behaviour)


def _odd_rows(behaviour: Behaviour) -> bool:
    """Tell whether weights are no softmax's, whatever factor or sink it may have."""
    softmax = behaviour.softmax
    if softmax is None or behaviour.understood:
        return False
    explained = softmax.factor is not None or softmax.sink is not None
    return softmax.rows_normalised is False and softmax.rows_at is None and not explained


def _varying(behaviour: Behaviour, scale: ScaleFacts) -> Iterator[FunctionVerdict]:
    lengths = {law.code for law in _candidates(scale)} & {"RDK105", "RDK111"}
    for varies in scale.varies:
        if varies.along == "key" or (varies.along == "run" and not lengths):
            yield FunctionVerdict(code="RDK111", severity=Severity.ERROR, message=along(varies))
        elif varies.along == "query":
            yield FunctionVerdict(code="RDK111", severity=Severity.NOTE, message=along(varies))
        elif varies.along in ("channel", "head"):
            yield FunctionVerdict(
                code="RDK108",
                severity=Severity.NOTE,
                message=along(varies),
                excuse=one_factor_each(varies),
            )
        elif varies.along == "batch":
            yield FunctionVerdict(code="RDK108", severity=Severity.ERROR, message=along(varies))


def _by_law(behaviour: Behaviour, scale: ScaleFacts) -> Iterator[FunctionVerdict]:
    found = _candidates(scale)
    readings = tuple(law.formula for law in found)
    sizes = scale.points[0].sizes if scale.points else None
    if behaviour.scale_as_expected is False:
        code = (found[0].code if found else None) or _code_of_exponents(scale.law)
        message = against_expected(behaviour, scale, readings)
        yield FunctionVerdict(code=code, message=message, law=_first(readings), readings=readings)
        return
    if found:
        law = found[0]
        if law.code is None:
            return
        severity = Severity.NOTE if law.code == "RDK111" else Severity.WARNING
        message = by_the_law(scale, law.formula, readings[1:])
        yield FunctionVerdict(
            code=law.code, severity=severity, message=message, law=law.formula, readings=readings
        )
    elif sizes is not None:
        yield FunctionVerdict(code=_code_of_exponents(scale.law), message=by_no_law(scale))


def _by_argument(behaviour: Behaviour) -> Iterator[FunctionVerdict]:
    """A scale argument that acts as another number than the one that is given."""
    given = behaviour.argument("scale")
    if given is None or given.effect != "wrong":
        return
    asked, acted = given.asked, given.acted
    if asked is None or acted is None or behaviour.scale is None or not behaviour.scale.points:
        message = f"{given.tried} does not multiply the scores by that number: {given.detail}"
        yield FunctionVerdict(code="RDK108", message=message, fact=f"arguments.{given.name}")
        return
    sizes = behaviour.scale.points[0].sizes
    code, how = "RDK108", ""
    if _near(acted, asked / math.sqrt(sizes.head_dim)):
        code, how = "RDK104", "it is used on top of 1/√head_dim, so that a scale counts twice"
    elif _near(acted, 1.0 / asked):
        code, how = "RDK106", "the scores are divided by it"
    message = by_argument(given.name, asked, acted, sizes, how)
    yield FunctionVerdict(code=code, message=message, fact=f"arguments.{given.name}")


def _near(value: float, other: float) -> bool:
    return abs(value - other) <= 10 * _TOLERANCE * abs(other)


def _candidates(scale: ScaleFacts) -> tuple[FunctionLaw, ...]:
    """Return the laws that fit the scale at every size that was tried."""
    points = [p for p in scale.points if p.uncertainty <= _VAGUE * abs(p.scale)]
    if not points:
        return ()
    grouped = any(p.sizes.kv_heads != p.sizes.heads for p in points)
    laws = (law for law in LAWS if grouped or "kv_heads" not in law.formula)
    return tuple(law for law in laws if all(_fits(point, law) for point in points))


def _fits(point: ScalePoint, law: FunctionLaw) -> bool:
    value = law.at(point.sizes)
    room = max(_TOLERANCE * abs(value), _UNCERTAINTIES * point.uncertainty)
    return abs(point.scale - value) <= room


def _formulas(scale: ScaleFacts) -> tuple[str, ...]:
    return tuple(law.formula for law in _candidates(scale))


def _first(readings: tuple[str, ...]) -> str | None:
    return readings[0] if readings else None


def _code_of_exponents(law: ScaleLaw | None) -> str:
    """Return the rule whose sizes a fitted power law depends on."""
    if law is None or law.misfit > _VAGUE:
        return "RDK108"
    depends = {
        name: exponent.value
        for name in ("head_dim", "keys", "queries", "heads", "batch")
        if abs((exponent := getattr(law, name)).value)
        > max(_EXPONENT, _UNCERTAINTIES * exponent.uncertainty)
    }
    if "keys" in depends or "queries" in depends:
        return "RDK105"
    if depends.get("head_dim", 0.0) > 0.0:
        return "RDK106"
    if "heads" in depends:
        return "RDK103" if "head_dim" in depends else "RDK107"
    if abs(depends.get("head_dim", 0.0) + 1.0) <= _EXPONENT:
        return "RDK104"
    return "RDK108"


class FunctionScaleRule(Rule):
    """A rule that speaks when the verdict on a function's scale names its code."""

    def judge_function(self, behaviour: Behaviour) -> Findings:
        """Yield the verdict's finding if it is this rule's to say."""
        verdict = classify_function(behaviour)
        scale = behaviour.scale
        if verdict.code != self.code or scale is None:
            return
        yield self.finding(
            behaviour,
            verdict.severity,
            verdict.message,
            excuse=verdict.excuse,
            evidence={
                "fact": verdict.fact,
                "effective_scale": scale.value,
                "law": verdict.law,
                "readings": verdict.readings,
                "measured": tuple(
                    (p.scale, p.sizes.head_dim, p.sizes.heads, p.sizes.keys) for p in scale.points
                ),
                "expected": behaviour.expected.get("scale"),
            },
        )
