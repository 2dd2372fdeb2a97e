"""How figures look: one palette, plain axes, room for names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["GREY", "INK", "PALETTE", "RC"]

# Okabe & Ito 2008, "Color Universal Design": told apart by readers with any colour vision. The
# yellow is left out: it is too pale for a line, or for text in its colour.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
INK = "#222222"
GREY = "#666666"

RC: Mapping[str, Any] = {
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "figure.dpi": 100,
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",  # comes with Matplotlib, so that a figure is the same anywhere
    "font.size": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "savefig.dpi": 150,
    "svg.fonttype": "path",
    "svg.hashsalt": "rootdk",
    "text.color": INK,
    "xtick.color": GREY,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 8.5,
    "ytick.color": GREY,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 8.5,
}
