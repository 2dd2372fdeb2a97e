"""A figure as data: what would be drawn, before anything is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

__all__ = ["Bars", "Level", "Line", "Mark", "Panel", "Sketch"]


@dataclass(frozen=True, kw_only=True)
class Line:
    """Points joined by a line, named at its end.

    Attributes
    ----------
    label : str
        What it is; written beside the line, in its colour.
    x, y : tuple of float
        Places and heights; None in ``y`` leaves a gap.
    low, high : tuple of float, optional
        A band around the line.
    color : int
        Which colour of the palette. The same thing has the same colour in all panels.
    dashed : bool
        Whether the line is dashed: what is expected, beside what was found.
    markers : bool
        Whether the points are marked.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None
    color: int = 0
    dashed: bool = False
    markers: bool = True


@dataclass(frozen=True, kw_only=True)
class Bars:
    """Bars beside one another, one for each tick of the panel, each with its text above.

    Attributes
    ----------
    label : str
        What they are; empty when there is only one kind.
    heights : tuple of float
        One for each tick.
    texts : tuple of str
        Written above each bar; empty for none.
    color : int
        Which colour of the palette.
    base : float
        Where the bars begin; on a logarithmic axis not at 0.
    """

    label: str
    heights: tuple[float, ...]
    texts: tuple[str, ...] = ()
    color: int = 0
    base: float = 0.0

    @classmethod
    def labelled(
        cls,
        heights: Iterable[float],
        *,
        label: str = "",
        digits: int = 4,
        color: int = 0,
        base: float = 0.0,
    ) -> Self:
        """Return bars that say their heights, to so many decimals."""
        heights = tuple(heights)
        texts = tuple(f"{height:.{digits}f}".replace("-", "−") for height in heights)
        return cls(label=label, heights=heights, texts=texts, color=color, base=base)


@dataclass(frozen=True, kw_only=True)
class Level:
    """A thin horizontal line across the panel, with its name: a bound, a goal."""

    label: str
    y: float


Mark = Line | Bars | Level


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One pair of axes.

    Attributes
    ----------
    title : str
        What the panel shows.
    x_label, y_label : str
        Names of the axes, with their units.
    marks : tuple of Line, Bars and Level
        What is drawn.
    x_log, y_log : int, optional
        Base of a logarithmic axis: 2 where sizes double, 10 otherwise; None for linear.
    ticks : tuple of str
        Names of the places of bars, or of the whole numbers of ``x``.
    y_range : tuple of float, optional
        Where the vertical axis begins and ends; None for as far as needed.
    lying : bool
        Whether bars lie, one below the other, so that long names of places can be read. The
        axis of their heights is then the horizontal one, and keeps the names ``y_…``.
    """

    title: str
    x_label: str
    y_label: str
    marks: tuple[Mark, ...]
    x_log: int | None = None
    y_log: int | None = None
    ticks: tuple[str, ...] = ()
    y_range: tuple[float | None, float | None] = (None, None)
    lying: bool = False


@dataclass(frozen=True, kw_only=True)
class Sketch:
    """Panels under one title.

    Attributes
    ----------
    title : str
        What the figure shows; usually the question.
    panels : tuple of Panel
        Row by row.
    across : int
        How many panels stand beside one another.
    """

    title: str
    panels: tuple[Panel, ...]
    across: int = 2
