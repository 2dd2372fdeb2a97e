"""Figures: data first (a sketch, made by what is to be shown), ink second (here)."""

from __future__ import annotations

from rootdk.plots._draw import draw
from rootdk.plots._files import write

__all__ = ["draw", "write"]
