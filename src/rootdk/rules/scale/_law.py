"""One verdict on the scale of a site; the rules 101 to 108 and 111 each say their part of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from rootdk.records import AttentionSite, Severity, Source
from rootdk.rules._base import Findings, Rule
from rootdk.rules._evidence import NotJudged, State, SummaryLike
from rootdk.rules.scale._excuses import excuse_for, expectation_of, varying_factor
from rootdk.rules.scale._factors import applications, before_softmax, describe, doubled, guilty
from rootdk.rules.scale._laws import (
    STANDARD,
    TIE_ORDER,
    Law,
    candidates,
)
from rootdk.rules.scale._wording import fact, other_readings, remark, undeclared

__all__ = ["ScaleRule", "ScaleVerdict", "classify"]

_UNEXPLAINED = "RDK108"
_VARYING = "RDK111"

_NOTHING: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class ScaleVerdict:
    """What the scale of a site is, and what there is to say of it.

    ``code`` is the one rule that speaks, None when all is well or nothing can be said; in the
    latter case ``why_not`` is the reason. ``law`` is the law taken, ``candidates`` all that the
    number fits. ``source`` is the guilty factor's, ``related`` those of the other factors.
    """

    code: str | None = None
    severity: Severity | None = None
    law: Law | None = None
    candidates: tuple[Law, ...] = ()
    excuse: str | None = None
    message: str = ""
    source: Source | None = None
    related: tuple[Source, ...] = ()
    evidence: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    why_not: str | None = None
    declare: str | None = None


def classify(
    site: AttentionSite,
    summary: SummaryLike | None,
    state: State,
    *,
    other_site: AttentionSite | None = None,
) -> ScaleVerdict:
    """Return the one verdict on a site's scale.

    ``other_site`` is the same call seen at another length; with it, only laws that fit both
    runs are candidates. See ``ambiguous`` for when that helps.
    """
    if site.head_dim < 1:
        return ScaleVerdict(why_not=f"head_dim is {site.head_dim}; 1/√head_dim has no value")
    found = candidates(site, other_site)
    law = _with_code(site, found[0]) if found else None
    if _declared_by(site, "user") and expectation_of(site):
        return ScaleVerdict(law=law, candidates=found)
    if site.effective_scale is None and varying_factor(site) is None:
        return ScaleVerdict(why_not="the factors before the softmax do not come to one number")
    judged = _judge(site, summary, state, law)
    if isinstance(judged, str):
        return ScaleVerdict(law=law, candidates=found, why_not=judged)
    code, severity, excuse = judged
    if code is None or severity is None:
        return ScaleVerdict(law=law, candidates=found)
    source, related = _places(site, code)
    return ScaleVerdict(
        code=code,
        severity=severity,
        law=law,
        candidates=found,
        excuse=excuse,
        message=fact(site, code, law)
        + other_readings(site, law, found, other_site)
        + remark(site, state, severity, excuse),
        source=source,
        related=related,
        evidence=_evidence(site, found, other_site),
        declare=undeclared(site, severity, excuse),
    )


_Judged = tuple[str | None, Severity | None, str | None]


def _judge(
    site: AttentionSite, summary: SummaryLike | None, state: State, law: Law | None
) -> _Judged | str:
    """Return code, severity and excuse; or, as a string, why it cannot be told."""
    scale = site.effective_scale
    varying = varying_factor(site)
    code = law.code if law is not None and law.code is not None else _UNEXPLAINED
    if scale is None:
        return _VARYING, Severity.NOTE, describe(varying) if varying is not None else None
    if scale == 0.0 or not math.isfinite(scale):
        return _UNEXPLAINED, Severity.ERROR, None
    if _declared_by(site, "user") and expectation_of(site) is False:
        return code, _unexcused(scale), None
    if varying is not None:
        return _VARYING, Severity.NOTE, describe(varying)
    standard = law is not None and law.formula == STANDARD
    if standard and expectation_of(site) is not False:
        return None, None, None
    if _declared_by(site, "config") and expectation_of(site) is False:
        return _against_config(site, code)
    try:
        excuse = excuse_for(site, summary, state)
    except NotJudged as reason:
        return reason.why
    if excuse is not None:
        return code, Severity.NOTE, excuse
    return code, _unexcused(scale), None


def _unexcused(scale: float | None) -> Severity:
    return Severity.ERROR if scale is not None and scale < 0.0 else Severity.WARNING


def _against_config(site: AttentionSite, code: str) -> _Judged:
    """A config's number that does not hold; a learned factor may stand for what is missing."""
    learned = next((f for f in before_softmax(site) if f.kind == "learned"), None)
    if learned is None:
        return code, _unexcused(site.effective_scale), None
    return code, Severity.NOTE, f"a learned factor stands before the softmax: {describe(learned)}"


def _declared_by(site: AttentionSite, who: str) -> bool:
    return site.expected is not None and site.expected.by == who


def _with_code(site: AttentionSite, law: Law) -> Law:
    """Tell 1/head_dim from 1/√head_dim twice, which are the same number."""
    if law.formula == "1/head_dim" and doubled(site) is not None:
        return Law(code="RDK102", formula=f"{STANDARD} twice", shown=law.shown, value=law.value)
    return law


def _places(site: AttentionSite, code: str) -> tuple[Source | None, tuple[Source, ...]]:
    """Return where the fault stands, and the further places that belong to it."""
    pair = doubled(site) if code == "RDK102" else None
    if code == _VARYING:
        varying = varying_factor(site)
        source = varying.source if varying is not None else None
    elif pair is not None:
        source = pair[1].source
    else:
        blamed = guilty(site)
        source = blamed.source if blamed is not None else None
    source = source or site.product_source or site.source
    others = (f.source for a in applications(site) for f in a.factors)
    return source, _distinct(others, source)


def _distinct(sources: Iterable[Source | None], but: Source | None) -> tuple[Source, ...]:
    found: list[Source] = []
    for source in sources:
        if source is not None and source != but and source not in found:
            found.append(source)
    return tuple(found)


def _evidence(
    site: AttentionSite, found: tuple[Law, ...], other_site: AttentionSite | None
) -> Mapping[str, object]:
    evidence: dict[str, object] = {
        "effective_scale": site.effective_scale,
        "standard_scale": site.standard_scale,
        "ratio": site.scale_ratio,
        "candidates": tuple(f"{law.formula} = {law.shown}" for law in found),
        "factors": tuple(describe(f) for f in before_softmax(site)),
    }
    if site.expected is not None:
        evidence["expected_scale"] = site.expected.value
        evidence["declared_by"] = site.expected.where
    if other_site is not None:
        evidence["effective_scale_at_another_length"] = other_site.effective_scale
    return MappingProxyType(evidence)


def _remedy(page: str, declare: str | None) -> str:
    return page if declare is None else f"{page} {declare}"


class ScaleRule(Rule):
    """A rule that speaks when the one verdict on the scale names its code."""

    @property
    def order(self) -> int:
        """The order in which ties are broken, so that the more specific comes first."""
        if self.code in TIE_ORDER:
            return 10 + TIE_ORDER.index(self.code)
        return super().order

    def judge_scale(
        self,
        site: AttentionSite,
        state: State,
        summary: SummaryLike | None = None,
        other_site: AttentionSite | None = None,
    ) -> Findings:
        """Yield the verdict's finding if it is this rule's to say."""
        verdict = classify(site, summary, state, other_site=other_site)
        if verdict.why_not is not None and self._concerns(site, verdict):
            self.skip(verdict.why_not)
        if verdict.code == self.code and verdict.severity is not None:
            yield self.finding(
                site,
                verdict.severity,
                verdict.message,
                source=verdict.source,
                remedy=_remedy(self.page.remedy, verdict.declare),
                excuse=verdict.excuse,
                evidence=verdict.evidence,
                related=verdict.related,
            )

    def _concerns(self, site: AttentionSite, verdict: ScaleVerdict) -> bool:
        """Tell whether what could not be judged is this rule's: any, or the law that it names."""
        if verdict.law is not None:
            return verdict.law.code == self.code
        known = site.effective_scale is not None and site.head_dim > 0
        return self.code == _UNEXPLAINED or not known
