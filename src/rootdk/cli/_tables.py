"""Experiments and their results as text for a terminal."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rootdk.cli._terminal import columns
from rootdk.lab._text import cell

if TYPE_CHECKING:
    from rootdk.lab import Experiment, Result

__all__ = ["described", "listed", "shown"]

WIDEST = 160
WIDEST_TEXT = 44
LONGEST_WORD = 24
"""That is not broken."""

MOST_ACROSS = 9
"""Rows that still fit beside one another when the table is turned on its side."""


def listed(kinds: Iterable[type[Experiment]]) -> str:
    """Return all experiments, one a line: name, methods, question."""
    lines = []
    for kind in kinds:
        head = f"{kind.name:<29} {', '.join(kind.methods()):<23} "
        needs = f" (needs {', '.join(kind.needs)})" if kind.needs else ""
        text = head + kind.question + needs
        lines += textwrap.wrap(text, max(columns(110), 80), subsequent_indent=" " * 54)
    ends = ["", "rootdk lab list NAME shows parameters and columns; rootdk lab run NAME runs it."]
    return "\n".join([*lines, *ends]) + "\n"


def described(kind: type[Experiment]) -> str:
    """Return one experiment: what it says of itself, its parameters and its columns."""
    from inspect import cleandoc

    lines = [f"{kind.name} · {', '.join(kind.methods())}", "", kind.question, ""]
    lines += [cleandoc(kind.__doc__ or ""), "", "Parameters"]
    for name, one in kind.parameters().items():
        default = ",".join(map(str, one.default)) if isinstance(one.default, tuple) else one.default
        lines += _item(f"{name}={default}", f"{one.says} ({one.expected})")
    lines += ["", "Columns"]
    for name, says in kind.columns.items():
        lines += _item(name, says)
    return "\n".join(lines) + "\n"


def shown(result: Result) -> str:
    """Return the table of a result; on its side if it is too wide otherwise."""
    names = result.columns
    rows = [[cell(value) for value in row] for row in result.rows]
    width = columns(WIDEST)
    if _needed(names, rows) > width and len(rows) <= MOST_ACROSS:
        turned = [list(line) for line in zip(names, *rows, strict=True)]
        return _drawn([""] * (len(rows) + 1), turned, width, header=False)
    return _drawn(names, rows, width, header=True)


def _item(name: str, says: str) -> list[str]:
    head = f"  {name}  "
    if len(head) > 34:
        return [head.rstrip(), *textwrap.wrap(says, 100, initial_indent=" " * 34,
                                              subsequent_indent=" " * 34)]  # fmt: skip
    return textwrap.wrap(f"{head:<34}{says}", 100, subsequent_indent=" " * 34)


def _needed(names: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    widths = [
        max([*map(len, _stacked(name).split("\n")), *(len(row[place]) for row in rows)])
        for place, name in enumerate(names)
    ]
    return sum(min(width, WIDEST_TEXT) + 2 for width in widths)


def _stacked(name: str) -> str:
    """Break a name at its underscores, into lines of about a dozen characters."""
    lines = [""]
    for word in name.replace("_", "_ ").split():
        if lines[-1] and len(lines[-1]) + len(word) > 12:
            lines.append("")
        lines[-1] += word
    return "\n".join(lines)


def _drawn(names: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, header: bool) -> str:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD if header else None, show_header=header, pad_edge=False)
    for place, name in enumerate(names):
        cells = [row[place] for row in rows]
        text = any(len(one) > 14 for one in cells) or (not header and place == 0)
        table.add_column(
            Text(_stacked(name)),
            justify="left" if text else "right",
            min_width=min(max(len(word) for one in cells for word in one.split()), LONGEST_WORD)
            if text
            else None,
            no_wrap=not text,
            overflow="fold",
            vertical="top",
        )
    for row in rows:
        table.add_row(*(Text(one) for one in row))
    page = io.StringIO()
    Console(file=page, width=width, color_system=None, legacy_windows=False).print(table)
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines()).strip("\n")
