"""A datasheet as text: the formula, the table of properties, and the findings."""

from __future__ import annotations

from collections.abc import Iterator

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from rootdk.records import Datasheet, Finding
from rootdk.report._datasheet import headline_of, not_judged, refusals_of
from rootdk.report._text_findings import wrapped
from rootdk.report._text_sites import SEVERITY_STYLES

__all__ = ["datasheet_parts"]

_INDENT = "    "


def datasheet_parts(sheet: Datasheet, width: int) -> Iterator[RenderableType]:
    """Yield what is printed, in order."""
    style = {"error": "bold red", "warning": "bold yellow"}.get(str(sheet.worst), "bold green")
    yield Text(headline_of(sheet), style=style)
    yield Text(_circumstances(sheet), style="dim")
    yield Text()
    if sheet.formula is not None:
        yield Text(f"{_INDENT}output = {sheet.formula}", style="bold")
        yield Text()
    if sheet.properties:
        yield _table(sheet)
    yield from _differences(sheet, width)
    for finding in sheet.findings:
        yield Text()
        yield from _finding(finding, width)
    yield from _rest(sheet, width)


def _circumstances(sheet: Datasheet) -> str:
    there, call = sheet.environment, sheet.behaviour.call
    versions = ", ".join(f"{name} {version}" for name, version in there.versions.items())
    return (
        f"{sheet.function}, layout {sheet.behaviour.layout}; {there.dtype} on {there.device}; "
        f"{call.calls} calls; {versions}"
    )


def _table(sheet: Datasheet) -> Table:
    table = Table(
        box=SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False, show_header=False
    )
    table.add_column()
    table.add_column()
    table.add_column(style="dim")
    for one in sheet.properties:
        table.add_row(one.label, one.value, one.note)
    return table


def _differences(sheet: Datasheet, width: int) -> Iterator[Text]:
    if sheet.differences is None:
        return
    yield Text()
    if not sheet.differences:
        yield Text(f"No property differs from those of {sheet.against}", style="bold")
        return
    yield Text(f"Different in {sheet.against}", style="bold")
    for one in sheet.differences:
        mine, theirs = one.one or "not measured", one.other or "not measured"
        yield from wrapped(f"{one.label}: {mine} here, {theirs} there", width, indent=_INDENT)


def _finding(finding: Finding, width: int) -> Iterator[Text]:
    place = finding.source.location if finding.source else finding.site
    head = f"{place}: {finding.code} {finding.message}"
    yield from wrapped(head, width, style=SEVERITY_STYLES[finding.severity.value])
    yield from wrapped(f"{finding.severity} ({finding.name})", width, indent=_INDENT, style="dim")
    if finding.excuse:
        yield from wrapped(f"only a note because {finding.excuse}", width, indent=_INDENT)
    if finding.remedy:
        yield from wrapped(f"remedy: {finding.remedy}", width, indent=_INDENT)


def _rest(sheet: Datasheet, width: int) -> Iterator[Text]:
    sections = (
        ("Not supported by the function", refusals_of(sheet)),
        ("Not judged", not_judged(sheet)),
        ("Remarks", list(sheet.remarks)),
    )
    for title, lines in sections:
        if lines:
            yield Text()
            yield Text(title, style="bold")
            for line in lines:
                yield from wrapped(line, width, indent=_INDENT)
