"""The sentences of the scale family: fact and numbers first, then what accounts for them."""

from __future__ import annotations

import math

from rootdk.records import AttentionSite, Severity
from rootdk.rules._evidence import State
from rootdk.rules.scale._excuses import expectation_of
from rootdk.rules.scale._factors import describe, doubled
from rootdk.rules.scale._laws import (
    STANDARD,
    Law,
    agrees,
    by_depth,
    closed_form,
    follows_standard,
)

__all__ = ["fact", "other_readings", "remark", "undeclared"]

_LOG2_E = math.log2(math.e)
_SAVED = "saved tensors"


def fact(site: AttentionSite, code: str, law: Law | None) -> str:
    """Return what is the case, in numbers."""
    scale = site.effective_scale
    if code == "RDK111":
        return _varying(site)
    if scale is None or not math.isfinite(scale):
        return f"scores are multiplied by {scale}, which leaves no finite score"
    if scale == 0.0:
        return "scores are multiplied by 0, so that all visible keys get the same weight"
    if scale < 0.0:
        return (
            f"scores are multiplied by {scale:.6g}, a negative number: "
            "the larger a product, the smaller its weight"
        )
    if code == "RDK102":
        return _twice(site)
    if follows_standard(site):
        return _by_coincidence(site, law)
    return f"scores are multiplied by {_named(scale, law)}, not {_standard(site)}{_hint(site)}"


def other_readings(
    site: AttentionSite,
    law: Law | None,
    found: tuple[Law, ...],
    other_site: AttentionSite | None,
) -> str:
    """Return which further laws the number fits, and what it was at another length."""
    more = [c.formula for c in found[1:] if law is None or c.code != law.code]
    end = f"; the number also fits {' and '.join(more)}" if more else ""
    if other_site is None or other_site.effective_scale is None:
        return end
    if agrees(site.effective_scale, other_site.effective_scale, site):
        return end
    return (
        f"{end}; with {other_site.queries} queries and {other_site.keys} keys it was "
        f"{other_site.effective_scale:.6g}"
    )


def remark(site: AttentionSite, state: State, severity: Severity, excuse: str | None) -> str:
    """Return what accounts for the fact, or that nothing does, as the end of a sentence."""
    expected = site.expected
    if expected is not None and expected.value is not None and expectation_of(site) is False:
        number = f"{expected.value:.6g}"
        end = f"; {excuse}" if excuse is not None else ""
        if expected.by == "user":
            return f"; {number} was expected ({expected.where}){end}"
        return f"; the config declares {number} ({expected.where}){end}"
    if excuse is not None:
        return f"; {excuse}"
    if severity is Severity.ERROR:
        return ""
    if site.spelling == _SAVED:
        return "; nothing stored with the tensors accounts for it, and their code is not known"
    return _unaccounted(site, state)


def undeclared(site: AttentionSite, severity: Severity, excuse: str | None) -> str | None:
    """Return how to declare a scale that no configuration could, where one would be believed."""
    declared = site.expected is not None
    if site.unconfigured is None or declared or excuse or severity is not Severity.WARNING:
        return None
    pattern = site.module_path or site.name
    return (
        "If it is meant, as a configuration would say, declare it: "
        f"--expect '{pattern}={site.effective_scale:.6g}'."
    )


def _unaccounted(site: AttentionSite, state: State) -> str:
    """Say where nothing was found that accounts for the fact, and where nothing could be."""
    config = " or config" if site.unconfigured is None else ""
    if state == "init":
        looked = "graph, config or entries" if config else "graph or entries"
        said = f"; nothing in {looked} accounts for it"
    else:
        looked = f"graph{config}" if config else "the graph"
        said = (
            f"; nothing in {looked} accounts for it, though the weights may have been "
            "trained with it"
        )
    if site.unconfigured is None:
        return said
    return f"{said}; {site.unconfigured} that could declare it"


def _by_coincidence(site: AttentionSite, law: Law | None) -> str:
    """The number is the standard one, and what it follows may still be another law."""
    number = f"1/√{site.head_dim} = {site.effective_scale:.6g}"
    if law is None:
        return f"scores are multiplied by {number} at this length only"
    if law.formula == STANDARD:
        return f"scores are multiplied by {number} ({STANDARD})"
    return f"scores are multiplied by {law.formula}, which equals {number} at this length only"


def _named(scale: float, law: Law | None) -> str:
    if law is None:
        shown = closed_form(scale)
        return f"{scale:.6g}" if shown is None else f"{shown} = {scale:.6g}"
    if law.formula == "1":
        return "1"
    return f"{law.shown} = {scale:.6g} ({law.formula})"


def _standard(site: AttentionSite) -> str:
    ratio = site.scale_ratio
    return f"1/√{site.head_dim} = {site.standard_scale:.6g} ({ratio:.4g} times the standard scale)"


def _twice(site: AttentionSite) -> str:
    pair = doubled(site)
    parts = [describe(f) for application in pair or () for f in application.factors]
    return (
        f"scores are multiplied by 1/√{site.head_dim} twice, by 1/{site.head_dim} = "
        f"{site.effective_scale:.6g} in all ({site.scale_ratio:.4g} times the standard "
        f"scale): {', and '.join(parts)}"
    )


def _varying(site: AttentionSite) -> str:
    start = "scores are multiplied by a factor that depends on the position"
    if site.effective_scale is None:
        return start
    return (
        f"{start}; the constant factors beside it come to {site.effective_scale:.6g} "
        f"({site.scale_ratio:.4g} times 1/√{site.head_dim})"
    )


def _hint(site: AttentionSite) -> str:
    """Say what the ratio to the standard is, where it is a number with a name."""
    ratio = site.scale_ratio
    named = {**by_depth(site), "log2(e), as for a base-2 softmax": _LOG2_E}
    known = [name for name, value in named.items() if agrees(ratio, value, site)]
    return f"; the ratio is {known[0]}" if known else ""
