"""A diagnosis, or a datasheet, as text for a terminal, a pipe or a file."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console, RenderableType
from rich.text import Text

from rootdk.records import Datasheet, Diagnosis
from rootdk.report._renderer import Renderer, require_diagnosis
from rootdk.report._text_datasheet import datasheet_parts
from rootdk.report._text_findings import finding_lines
from rootdk.report._text_heads import head_view
from rootdk.report._text_rest import rest_lines
from rootdk.report._text_sites import site_table
from rootdk.report._verdict import headline, tally, verdict

__all__ = ["RENDERER", "render"]

WIDTH = 100
_STYLES = {"HEALTHY": "bold green", "SICK": "bold red"}


def render(
    record: object,
    *,
    width: int = WIDTH,
    color: bool = False,
    heads: bool = False,
    **_: Any,
) -> str:
    """Return a diagnosis or a datasheet as text.

    Parameters
    ----------
    record : Diagnosis or Datasheet
        What to show.
    width : int
        Columns; at least 80.
    color : bool
        Whether to write colour codes. Words carry everything that colours do.
    heads : bool
        Whether to show every head, and not only those that stand out.
    """
    width = max(width, 80)
    if isinstance(record, Datasheet):
        parts = list(datasheet_parts(record, width))
    else:
        parts = _parts(require_diagnosis(record, "text"), width=width, heads=heads)
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    with console.capture() as capture:
        for part in parts:
            console.print(part)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def _parts(diagnosis: Diagnosis, *, width: int, heads: bool) -> list[RenderableType]:
    style = _STYLES.get(verdict(diagnosis), "bold yellow")
    parts: list[RenderableType] = [
        Text(headline(diagnosis), style=style),
        Text(_circumstances(diagnosis), style="dim"),
    ]
    if diagnosis.sites:
        parts += [Text(), *site_table(diagnosis, width), *head_view(diagnosis, width, heads)]
    parts += [*finding_lines(diagnosis, width), *rest_lines(diagnosis, width)]
    return [*parts, Text(), Text(tally(diagnosis), style="bold")]


def _circumstances(diagnosis: Diagnosis) -> str:
    there = diagnosis.environment
    mode = {True: ", training mode", False: ", eval mode", None: ""}[there.training]
    autocast = f", autocast {there.autocast}" if there.autocast else ""
    reason = f" ({diagnosis.state_reason})" if diagnosis.state_reason else ""
    ran = f" on {there.device}{autocast}{mode}" if there.device else ", nothing was run"
    return f"{diagnosis.target}: {diagnosis.state}{reason}; {there.dtype}{ran}"


RENDERER = Renderer(name="text", suffixes=(".txt",), render=render)
