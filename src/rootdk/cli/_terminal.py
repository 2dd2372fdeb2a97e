"""What the terminal is, if it is one."""

from __future__ import annotations

import os
import shutil
import sys

__all__ = ["colors", "columns"]

_WIDTH = 100


def colors() -> bool:
    """Tell whether standard output is a terminal that wants colours."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and _capable()


def columns(widest: int) -> int:
    """Return how wide to write: the terminal's width up to ``widest``, 100 where there is none."""
    if not sys.stdout.isatty():
        return _WIDTH
    return min(shutil.get_terminal_size((_WIDTH, 24)).columns, widest)


def _capable() -> bool:
    return os.environ.get("TERM") != "dumb"
