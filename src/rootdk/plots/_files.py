"""Figures as files that are the same whenever they are made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rootdk._lib.errors import ArgumentError
from rootdk._lib.extras import require
from rootdk.plots._style import RC

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["write"]

METADATA = {".svg": {"Date": None, "Creator": None}, ".png": {"Software": None}}


def write(figure: Figure, path: Path) -> None:
    """Write a figure as SVG or PNG, without a date or names that differ from run to run.

    Raises
    ------
    ArgumentError
        If the suffix is neither.
    """
    matplotlib = require("matplotlib", extra="lab", purpose="to write a figure")
    if path.suffix not in METADATA:
        raise ArgumentError.unexpected("suffix of a figure", path.suffix, ".svg or .png")
    with matplotlib.rc_context(dict(RC)):
        figure.savefig(path, metadata=METADATA[path.suffix])
