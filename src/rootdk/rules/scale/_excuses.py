"""What can account for a scale that is not 1/√head_dim."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rootdk.records import AttentionSite, Factor, OperandPath
from rootdk.rules._evidence import NotJudged, State, SummaryLike, pooled_over_heads
from rootdk.rules.scale._factors import before_softmax, describe
from rootdk.rules.scale._laws import agrees

__all__ = ["excuse_for", "expectation_of", "varying_factor"]

_SLACK = 1.5
_ORDINARY = 0.75
"""An ordinary layer's entries reach about 1; below this they are smaller on purpose."""


def excuse_for(site: AttentionSite, summary: SummaryLike | None, state: State) -> str | None:
    """Return why the deviation is accounted for, or None.

    Raises
    ------
    NotJudged
        If only the entries could account for it, and they were not measured.
    """
    return next(_excuses(site, summary, state), None)


def varying_factor(site: AttentionSite) -> Factor | None:
    """Return the first factor before the softmax that depends on the position."""
    return next((f for f in before_softmax(site) if f.kind == "position-dependent"), None)


def expectation_of(site: AttentionSite) -> bool | None:
    """Tell whether the declared number, by user or config, is the measured one; None: no number."""
    if site.expected is None or site.expected.value is None:
        return None
    if site.expected.value == site.effective_scale:
        return True
    return agrees(site.effective_scale, site.expected.value, site)


def _excuses(site: AttentionSite, summary: SummaryLike | None, state: State) -> Iterator[str]:
    yield from _terms(site)
    if site.expected is not None and expectation_of(site) is not False:
        yield f"declared by {site.expected.where}"
    learned = next((f for f in before_softmax(site) if f.kind == "learned"), None)
    if learned is not None:
        yield f"a learned factor stands before the softmax: {describe(learned)}"
    yield from _norms(site, summary)
    yield from _entries(site, summary, state)


def _terms(site: AttentionSite) -> Iterator[str]:
    """Several products summed make one of all their channels, whose root is then the usual one."""
    terms, widths = site.score_terms, (site.head_dim, *site.term_widths)
    if terms < 2:
        return
    if len(widths) != terms or 0 in widths:
        widths = (site.head_dim,) * terms
    if agrees(site.effective_scale, float(sum(widths)) ** -0.5, site):
        alike = len(set(widths)) == 1
        of = f"{terms}·{site.head_dim}" if alike else "+".join(map(str, widths))
        yield (
            f"{terms} score terms are added, each divided by √({of}), so that their sum has the "
            "usual size"
        )


def _norms(site: AttentionSite, summary: SummaryLike | None) -> Iterator[str]:
    paths = {"query": site.query_path, "key": site.key_path}
    gained = [name for name, path in paths.items() if _normalised(path) and _gained(path)]
    if gained:
        yield f"the {' and the '.join(gained)} passed a norm with a learned gain"
    plain = all(_normalised(path) for path in paths.values())
    if plain and _above_standard(site) and _unit_length(site, summary):
        yield (
            "query and key are both normalised, so the scores before the scale lie within "
            "1 and -1 and a larger scale is needed"
        )


def _normalised(path: OperandPath | None) -> bool:
    return path is not None and (path.normalised or path.terminal == "norm")


def _gained(path: OperandPath | None) -> bool:
    return path is not None and path.learned_gain


def _above_standard(site: AttentionSite) -> bool:
    return site.effective_scale is not None and site.effective_scale > site.standard_scale


def _unit_length(site: AttentionSite, summary: SummaryLike | None) -> bool:
    """Tell whether the operands have length 1 and not root mean square 1, if that is known."""
    if summary is None or not {"query_rms", "key_rms"} <= set(summary.quantities):
        return True
    rms = pooled_over_heads(summary, "query_rms") * pooled_over_heads(summary, "key_rms")
    return bool(rms * site.head_dim <= _SLACK)


def _entries(site: AttentionSite, summary: SummaryLike | None, state: State) -> Iterator[str]:
    """Small projections can carry the factor; only untouched entries can tell that."""
    if state != "init" or not _above_standard(site):
        return
    if summary is None:
        raise NotJudged("the projections may carry the scale, and their entries are unknown")
    query, key = (pooled_over_heads(summary, name) for name in ("query_std", "key_std"))
    value = pooled_over_heads(summary, "value_std") if "value_std" in summary.quantities else 0.0
    largest = max(query, key, value)
    if not (math.isfinite(largest) and largest > 0.0):
        return
    share = query * key / largest**2
    ratio = (site.effective_scale or 0.0) / site.standard_scale
    bound = min(_SLACK / max(math.sqrt(site.head_dim), ratio), _ORDINARY)
    if share <= bound:
        yield (
            "the projections carry it: query_std·key_std is "
            f"{share:.3g} of the largest entry size squared, where {bound:.3g} suffices"
        )
