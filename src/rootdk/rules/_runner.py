"""Run rules over sites: each on the evidence that it reads, one fault under one code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from rootdk.records import AttentionSite, Finding, Skipped
from rootdk.records.behaviour import Behaviour
from rootdk.rules._base import Judging, Rule, reads
from rootdk.rules._evidence import NotJudged, State, SummaryLike
from rootdk.rules._registry import all_rules, chosen

__all__ = ["Verdicts", "judge", "judge_behaviour", "judge_rule", "supersede"]

_AT_A_SITE = frozenset({"site", "other_site", "summary", "state"})
_OF_A_FUNCTION = frozenset({"behaviour"})

_READ_BY = {
    "behaviour": "it reads what one function does by itself, which `rootdk identify` measures",
    "history": "it reads samples over steps, and no training run was watched",
}

_NO_SITES: Mapping[str, AttentionSite] = MappingProxyType({})


@dataclass(kw_only=True)
class Verdicts:
    """What rules said, in three values: found, not judged, and silent where there is neither."""

    findings: list[Finding] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)


def judge(
    sites: Sequence[AttentionSite],
    summaries: Mapping[str, SummaryLike],
    state: str,
    *,
    other_sites: Mapping[str, AttentionSite] = _NO_SITES,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    rules: Sequence[Rule] | None = None,
) -> tuple[tuple[Finding, ...], tuple[Skipped, ...]]:
    """Return what the rules find at the sites, and what they could not judge and why.

    Parameters
    ----------
    sites : sequence of AttentionSite
        The attention calls of a model.
    summaries : mapping of str to SummaryLike
        Their statistics, by the name of the site.
    state : str
        ``"init"``, ``"trained"`` or ``"unknown"``, which is judged as trained.
    other_sites : mapping of str to AttentionSite
        The same calls seen at another length, for those where that helps to tell laws apart.
    select, ignore : iterable of str
        Codes, beginnings of codes, names or families; everything is selected by default.
    rules : sequence of Rule, optional
        The rules to run; all of them by default.

    Returns
    -------
    findings : tuple of Finding
        Errors first, then the more specific, then in the order of the sites. A finding that is
        the consequence of another at the same site is not among them.
    skipped : tuple of Skipped
        Every rule that had nothing to judge by, and every finding that was a consequence.
    """
    every = tuple(all_rules() if rules is None else rules)
    codes = chosen(every, select=select, ignore=ignore)
    judged_as: State = "init" if state == "init" else "trained"
    verdicts = Verdicts()
    for one in every:
        if not any(_is_of_a_site(method) for method in one.judging.values()):
            verdicts.skipped.append(Skipped(code=one.code, why=_no_evidence(one)))
    for site in sites:
        evidence: dict[str, object] = {"site": site, "state": judged_as}
        if site.name in summaries:
            evidence["summary"] = summaries[site.name]
        if site.name in other_sites:
            evidence["other_site"] = other_sites[site.name]
        at_site = Verdicts()
        for one in every:
            judge_rule(one, evidence, into=at_site)
        kept, dropped = supersede(at_site.findings, every)
        verdicts.findings += kept
        verdicts.skipped += at_site.skipped + dropped
    return _in_order(verdicts, every, codes)


def judge_behaviour(
    behaviour: Behaviour,
    *,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    rules: Sequence[Rule] | None = None,
) -> tuple[tuple[Finding, ...], tuple[Skipped, ...]]:
    """Return what the rules find in the measured behaviour of one function.

    Parameters
    ----------
    behaviour : Behaviour
        What probes measured. A design that ``behaviour.expected`` declares is silent.
    select, ignore, rules
        As for :func:`judge`.

    Returns
    -------
    findings : tuple of Finding
        Errors first, then the more specific. A consequence of another is not among them.
    skipped : tuple of Skipped
        Every rule that had nothing to judge by, and every finding that was a consequence.
    """
    every = tuple(all_rules() if rules is None else rules)
    codes = chosen(every, select=select, ignore=ignore)
    verdicts = Verdicts()
    for one in every:
        if any(_is_of_a_function(method) for method in one.judging.values()):
            judge_rule(one, {"behaviour": behaviour}, into=verdicts)
        else:
            why = "a function shows none of what it reads"
            verdicts.skipped.append(Skipped(code=one.code, why=why, site=behaviour.name))
    verdicts.findings, dropped = supersede(verdicts.findings, every)
    verdicts.skipped += dropped
    return _in_order(verdicts, every, codes)


def _in_order(
    verdicts: Verdicts, every: Sequence[Rule], codes: frozenset[str]
) -> tuple[tuple[Finding, ...], tuple[Skipped, ...]]:
    """Return what was selected: errors first, then by the order of the rules."""
    findings = [finding for finding in verdicts.findings if finding.code in codes]
    skipped = tuple(skip for skip in verdicts.skipped if skip.code in codes)
    order = {one.code: one.order for one in every}
    findings.sort(key=lambda finding: (finding.severity.rank, order[finding.code]))
    return tuple(findings), skipped


def judge_rule(one: Rule, evidence: Mapping[str, object], *, into: Verdicts) -> None:
    """Run one rule's judging methods on what there is of one site or function; add what they say.

    A function is judged by the methods that read its behaviour, a site by the others.
    """
    site = evidence.get("site")
    subject = evidence["behaviour"] if site is None else site
    assert isinstance(subject, AttentionSite | Behaviour)
    for method in one.judging.values():
        is_its_own = _is_of_a_function if isinstance(subject, Behaviour) else _is_of_a_site
        if not is_its_own(method) and (site is None or not _has_all(method, evidence)):
            continue
        if isinstance(subject, AttentionSite) and one.needs_resolved and not subject.resolved:
            why = f"the site is unresolved: {subject.unresolved}"
            into.skipped.append(Skipped(code=one.code, why=why, site=subject.name))
            return
        try:
            into.findings += _call(method, evidence)
        except NotJudged as reason:
            into.skipped.append(Skipped(code=one.code, why=reason.why, site=subject.name))
        except Exception as error:
            error.add_note(f"while {one.code} judged {subject.name}")
            raise


def supersede(
    findings: Sequence[Finding], rules: Sequence[Rule]
) -> tuple[list[Finding], list[Skipped]]:
    """Split one site's findings into causes, and consequences with the cause as the reason."""
    by_code = {one.code: one for one in rules}
    kept: list[Finding] = []
    dropped: list[Skipped] = []
    for finding in findings:
        cause = next((f for f in findings if _explains(by_code[f.code], f, finding)), None)
        if cause is None:
            kept.append(finding)
            continue
        why = f"a consequence of {cause.code} {cause.name} at the same site"
        dropped.append(Skipped(code=finding.code, why=why, site=finding.site))
    return kept, dropped


def _explains(one: Rule, cause: Finding, finding: Finding) -> bool:
    return finding.code in one.supersedes and cause.severity in one.supersedes_when


def _is_of_a_site(method: Judging) -> bool:
    needed, _ = reads(method)
    return set(needed) <= _AT_A_SITE


def _is_of_a_function(method: Judging) -> bool:
    needed, _ = reads(method)
    return set(needed) <= _OF_A_FUNCTION


def _has_all(method: Judging, evidence: Mapping[str, object]) -> bool:
    needed, _ = reads(method)
    return set(needed) <= set(evidence)


def _call(method: Judging, evidence: Mapping[str, object]) -> list[Finding]:
    needed, optional = reads(method)
    for name in needed:
        if name not in evidence:
            raise NotJudged(_ABSENT[name])
    given = {name: evidence[name] for name in (*needed, *optional) if name in evidence}
    return list(method(**given))


_ABSENT = {
    "summary": "the site has no statistics",
    "other_site": "the call was not seen at another length",
    **_READ_BY,
}


def _no_evidence(one: Rule) -> str:
    names = {name for method in one.judging.values() for name in reads(method)[0]}
    return "; ".join(_READ_BY[name] for name in sorted(names & set(_READ_BY)))
