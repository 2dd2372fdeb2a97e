"""How far a long command is: a line on a terminal, nothing in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout

__all__ = ["counted", "progress"]

_LONGEST = 30
"""Of what comes next, so that the bar keeps its place."""


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Yield a function that is told what is reached; it shows that while the block runs.

    What the block prints goes to standard error: it is not part of a report, which may be JSON.
    """
    with redirect_stdout(sys.stderr):
        yield from _told_of_each()


def _told_of_each() -> Iterator[Callable[[str], None]]:
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.completed:>4}"), BarColumn(), TimeElapsedColumn(),
               TextColumn("{task.description}", markup=False))  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def advance(reached: str) -> None:
            bar.update(task, advance=1, description=reached)

        yield advance


@contextmanager
def counted(name: str) -> Iterator[Callable[[int, int, str], None]]:
    """Yield a function that is told how much of how much is done, and what comes next."""
    if not sys.stderr.isatty():
        yield lambda done, total, what: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.fields[name]}"), BarColumn(), MofNCompleteColumn(),
               TimeElapsedColumn(), TimeRemainingColumn(),
               TextColumn("{task.description}", markup=False))  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, name=name)

        def advance(done: int, total: int, what: str) -> None:
            said = what if len(what) <= _LONGEST else what[: _LONGEST - 1] + "…"
            bar.update(task, completed=done, total=total, description=said)

        yield advance
