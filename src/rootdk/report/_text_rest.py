"""The end of a text report: what was not judged, not understood, or is worth a remark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rich.text import Text

from rootdk.records import Diagnosis
from rootdk.report._text_findings import listed, wrapped

__all__ = ["rest_lines"]

_INDENT = "    "


def rest_lines(diagnosis: Diagnosis, width: int) -> Iterator[Text]:
    """Yield unresolved sites, skipped rules, unhandled operations and remarks, where any."""
    sections = (
        ("Unresolved sites (found, not understood, not judged)", _unresolved(diagnosis)),
        ("Skipped rules", _skipped(diagnosis)),
        (
            "No softmax over query-key products (listed, not judged)",
            _unhandled(diagnosis, "attention"),
        ),
        ("Operations not understood", _unhandled(diagnosis, "operation")),
        ("Remarks", list(dict.fromkeys((*diagnosis.remarks, *_inexact(diagnosis))))),
    )
    for title, entries in sections:
        if entries:
            yield Text()
            yield Text(title, style="bold")
            for entry in entries:
                yield from wrapped(entry, width, indent=_INDENT)


def _unresolved(diagnosis: Diagnosis) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for site in diagnosis.unresolved:
        place = f" ({site.source.location})" if site.source else ""
        reasons.setdefault(site.unresolved or "", []).append(site.name + place)
    return [f"{listed(places)}: {why}" for why, places in reasons.items()]


def _skipped(diagnosis: Diagnosis) -> list[str]:
    """Return one line a reason: the rules it kept from judging, and at how many sites.

    What no site of any model can show is another verb's, and no news to a reader of this one.
    """
    reasons: dict[str, dict[str, int]] = {}
    for skipped in diagnosis.skipped:
        if skipped.site is None:
            continue
        codes = reasons.setdefault(skipped.why, {})
        codes[skipped.code] = codes.get(skipped.code, 0) + 1
    return [
        listed([code if n == 1 else f"{code} ×{n}" for code, n in sorted(codes.items())], 6)
        + f": {why}"
        for why, codes in reasons.items()
    ]


def _inexact(diagnosis: Diagnosis) -> list[str]:
    """Return what keeps statistics from being exact, and at how many sites."""
    notes = Counter(note for summary in diagnosis.summaries.values() for note in summary.notes)
    return [
        f"statistics of {n} of {len(diagnosis.summaries)} sites: {note}"
        for note, n in notes.items()
    ]


def _unhandled(diagnosis: Diagnosis, kind: str) -> list[str]:
    return [
        f"{u.operation} ×{u.count}"
        + (f" at {u.where}" if u.where else "")
        + (f": {u.why}" if u.why else "")
        for u in diagnosis.unhandled
        if u.kind == kind
    ]
