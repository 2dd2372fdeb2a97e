"""The findings of a text report, each with the source line that it speaks of."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from rich.text import Text

from rootdk.records import Diagnosis, Finding, Source
from rootdk.report._text_sites import SEVERITY_STYLES
from rootdk.report._verdict import counted

__all__ = ["finding_lines", "listed", "wrapped"]

_INDENT = "    "


def finding_lines(diagnosis: Diagnosis, width: int) -> Iterator[Text]:
    """Yield the findings, those that say the same of one line at many sites together."""
    if not diagnosis.findings:
        return
    yield Text()
    yield Text("Findings", style="bold")
    groups: dict[tuple[str, str, str, str | None], list[Finding]] = {}
    for finding in diagnosis.findings:
        place = finding.source.location if finding.source else finding.site
        key = (finding.code, finding.severity.value, place, finding.excuse)
        groups.setdefault(key, []).append(finding)
    for (code, severity, place, _), group in groups.items():
        head = f"{place}: {code} {group[0].message}"
        yield from wrapped(head, width, style=SEVERITY_STYLES[severity])
        yield from _details(group, width)


def wrapped(text: str, width: int, *, indent: str = "", style: str = "") -> Iterator[Text]:
    """Yield a text as lines of at most ``width``, those after the first further in."""
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent + _INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
    for line in lines:
        yield Text(line, style=style)


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return names in order, with a count of those that are not shown.

    Examples
    --------
    >>> listed(["a", "b"]), listed(["a", "b", "c", "d", "e"])
    ('a, b', 'a, b, c and 2 more')
    """
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _details(group: Sequence[Finding], width: int) -> Iterator[Text]:
    first = group[0]
    if first.source and first.source.text:
        yield from _source_line(first.source, width)
    if first.source and len(first.source.frames) > 1:
        callers = " ← ".join(f"{f.location} ({f.function})" for f in first.source.frames[1:])
        yield from wrapped(f"called from {callers}", width, indent=_INDENT, style="dim")
    for related in first.related:
        yield from wrapped(f"also {related.location}", width, indent=_INDENT)
        if related.text:
            yield from _source_line(related, width)
    sites = list(dict.fromkeys(finding.site for finding in group))
    others = any(finding.message != first.message for finding in group)
    where = (
        f"{sites[0]}, and with other numbers at {listed(sites[1:])}" if others else listed(sites)
    )
    what = f"{first.severity} ({first.name}) at {where}"
    if len(group) > len(sites):
        what += f", {counted(len(group), 'time')}"
    yield from wrapped(what, width, indent=_INDENT, style="dim")
    if first.excuse:
        yield from wrapped(f"only a note because {first.excuse}", width, indent=_INDENT)
    if first.remedy:
        yield from wrapped(f"remedy: {first.remedy}", width, indent=_INDENT)


def _source_line(source: Source, width: int) -> Iterator[Text]:
    line = f"{_INDENT}{source.frames[0].line:>4} │ {source.text}"
    yield Text(line if len(line) <= width else line[: width - 1] + "…", style="bold")
