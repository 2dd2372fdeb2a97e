"""Figures as files that are the same whenever they are made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from rootdk._lib.errors import ArgumentError
from rootdk._lib.extras import require
from rootdk.plots._style import RC

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["write"]

METADATA = {".svg": {"Date": None, "Creator": None}, ".png": {"Software": None}}


def write(figure: Figure, target: Path | TextIO) -> None:
    """Write a figure as SVG or PNG, without a date or names that differ from run to run.

    Parameters
    ----------
    figure : Figure
        The figure.
    target : Path or text stream
        A file that ends in ``.svg`` or ``.png``, or a stream for SVG.

    Raises
    ------
    ArgumentError
        If the suffix is another.
    """
    matplotlib = require("matplotlib", extra="lab", purpose="to write a figure")
    suffix = target.suffix if isinstance(target, Path) else ".svg"
    if suffix not in METADATA:
        raise ArgumentError.unexpected("suffix of a figure", suffix, ".svg or .png")
    with matplotlib.rc_context(dict(RC)):
        figure.savefig(target, format=suffix[1:], metadata=METADATA[suffix])
