"""A datasheet as Markdown, to be kept beside the function it describes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rootdk._lib.errors import ArgumentError
from rootdk.records import Datasheet, Finding
from rootdk.report._datasheet import headline_of, not_judged, refusals_of
from rootdk.report._renderer import Renderer

__all__ = ["RENDERER", "render"]


def render(record: object, **_: Any) -> str:
    """Return a datasheet as Markdown."""
    if not isinstance(record, Datasheet):
        raise ArgumentError(
            f"the format markdown shows a Datasheet; it was given a {type(record).__name__}"
        )
    return "\n".join(_lines(record)) + "\n"


def _lines(sheet: Datasheet) -> Iterator[str]:
    there = sheet.environment
    versions = ", ".join(f"{name} {version}" for name, version in there.versions.items())
    yield f"# {sheet.function}"
    yield ""
    yield headline_of(sheet)
    yield ""
    if sheet.formula is not None:
        yield f"`output = {sheet.formula}`"
        yield ""
    yield f"Layout {sheet.behaviour.layout}, {there.dtype} on {there.device}; {versions}."
    if sheet.properties:
        yield ""
        yield "| property | value | |"
        yield "|---|---|---|"
        for one in sheet.properties:
            yield f"| {_cell(one.label)} | {_cell(one.value)} | {_cell(one.note)} |"
    if sheet.differences is not None:
        yield from _differences(sheet)
    if sheet.findings:
        yield ""
        yield "## Findings"
        for finding in sheet.findings:
            yield ""
            yield from _finding(finding)
    for title, lines in (
        ("Not supported", refusals_of(sheet)),
        ("Not judged", not_judged(sheet)),
        ("Remarks", list(sheet.remarks)),
    ):
        if lines:
            yield ""
            yield f"## {title}"
            yield ""
            yield from (f"- {line}" for line in lines)


def _differences(sheet: Datasheet) -> Iterator[str]:
    yield ""
    yield f"## Differences from {sheet.against}"
    yield ""
    if not sheet.differences:
        yield "None."
        return
    yield f"| property | {_cell(sheet.function)} | {_cell(str(sheet.against))} |"
    yield "|---|---|---|"
    for one in sheet.differences:
        yield f"| {_cell(one.label)} | {_cell(one.one or '')} | {_cell(one.other or '')} |"


def _finding(finding: Finding) -> Iterator[str]:
    yield f"**{finding.code} {finding.name}** ({finding.severity}): {finding.message}."
    if finding.excuse:
        yield f"Only a note because {finding.excuse}."
    if finding.remedy:
        yield f"Remedy: {finding.remedy}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


RENDERER = Renderer(name="markdown", suffixes=(".md",), render=render)
