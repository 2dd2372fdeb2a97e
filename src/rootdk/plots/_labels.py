"""Names at the ends of lines, pushed apart where they would touch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rootdk.lab import Bars, Level, Line, Panel
from rootdk.plots._style import GREY, PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["apart", "name_bars", "name_lines"]

GAP = 11.0
"""Between the middles of two names, in points."""

POINTS_PER_INCH = 72.0


def name_lines(axes: Axes, panel: Panel) -> None:
    """Write the name of each line and level to the right of its end, in its colour."""
    if panel.lying:
        name_upright(axes, panel)
        return
    ends = []
    for mark in panel.marks:
        if isinstance(mark, Line) and mark.label:
            known = [(x, y) for x, y in zip(mark.x, mark.y, strict=True) if y is not None]
            if known:
                ends.append((mark.label, *known[-1], PALETTE[mark.color % len(PALETTE)], True))
        elif isinstance(mark, Level) and mark.label:
            ends.append((mark.label, axes.get_xlim()[1], mark.y, GREY, False))
    if not ends:
        return
    right = axes.get_xlim()[1]
    scale = POINTS_PER_INCH / axes.get_figure(root=True).dpi  # type: ignore[union-attr]
    heights = [axes.transData.transform((x, y))[1] * scale for _, x, y, _, _ in ends]
    for (label, x, y, color, of_line), height, moved in zip(
        ends, heights, apart(heights, GAP), strict=True
    ):
        axes.annotate(
            label,
            xy=(x if of_line else right, y),
            xytext=(7, moved - height),
            textcoords="offset points",
            color=color,
            fontsize=8.5,
            va="center",
            annotation_clip=False,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
        )


def name_upright(axes: Axes, panel: Panel) -> None:
    """Write the name of each level below the last bar, where bars lie and levels stand."""
    for mark in panel.marks:
        if isinstance(mark, Level) and mark.label:
            axes.annotate(
                mark.label,
                xy=(mark.y, 0.0),
                xycoords=("data", "axes fraction"),
                xytext=(3, 2),
                textcoords="offset points",
                color=GREY,
                fontsize=8.0,
                va="bottom",
            )


def name_bars(axes: Axes, panel: Panel) -> None:
    """Write the names of the kinds of bars at the right of the title, each in its colour."""
    named = [mark for mark in panel.marks if isinstance(mark, Bars) and mark.label]
    offset = 0.0
    for bars in reversed(named):
        axes.annotate(
            f"■ {bars.label}",
            xy=(1.0, 1.0),
            xycoords="axes fraction",
            xytext=(-offset, 6.0),
            textcoords="offset points",
            color=PALETTE[bars.color % len(PALETTE)],
            fontsize=8.5,
            ha="right",
            va="bottom",
        )
        offset += 5.2 * (len(bars.label) + 4)


def apart(heights: Sequence[float], gap: float) -> list[float]:
    """Return heights moved as little as needed for any two to be ``gap`` apart.

    Those that would touch are spread about their common middle.

    Examples
    --------
    >>> apart([10.0, 0.0, 11.0], gap=4.0)
    [8.5, 0.0, 12.5]
    """
    order = sorted(range(len(heights)), key=lambda place: heights[place])
    groups: list[list[int]] = []
    for place in order:
        groups.append([place])
        while len(groups) > 1 and _top(groups[-2], heights, gap) + gap > _bottom(
            groups[-1], heights, gap
        ):
            last = groups.pop()
            groups[-1] += last
    moved = [math.nan] * len(heights)
    for group in groups:
        low = _bottom(group, heights, gap)
        for step, place in enumerate(group):
            moved[place] = low + step * gap
    return moved


def _bottom(group: Sequence[int], heights: Sequence[float], gap: float) -> float:
    middle = sum(heights[place] for place in group) / len(group)
    return middle - (len(group) - 1) * gap / 2


def _top(group: Sequence[int], heights: Sequence[float], gap: float) -> float:
    return _bottom(group, heights, gap) + (len(group) - 1) * gap
