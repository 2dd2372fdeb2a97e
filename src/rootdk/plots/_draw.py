"""A sketch as a Matplotlib figure."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from rootdk._lib.extras import require
from rootdk.lab import Bars, Level, Line, Panel, Sketch
from rootdk.plots._labels import name_lines
from rootdk.plots._style import GREY, PALETTE, RC

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw"]

PANEL_WIDTH, PANEL_HEIGHT = 4.4, 3.2
"""Of one panel, in inches."""

TITLE_CHARACTERS = 26
"""Of the title, in one inch."""


def draw(sketch: Sketch) -> Figure:
    """Return a sketch as a figure that no global state knows of.

    Raises
    ------
    MissingExtraError
        If Matplotlib is not installed.
    """
    matplotlib = require("matplotlib", extra="lab", purpose="to draw")
    module = require("matplotlib.figure", extra="lab", purpose="to draw")
    across = min(sketch.across, len(sketch.panels))
    down = -(-len(sketch.panels) // across)
    size = (max(PANEL_WIDTH * across, 5.5), PANEL_HEIGHT * down + 0.5)
    with matplotlib.rc_context(dict(RC)):
        figure: Figure = module.Figure(figsize=size, layout="constrained")
        grid = figure.subplots(down, across, squeeze=False).flatten()
        width = int(size[0] * TITLE_CHARACTERS * 0.5)
        figure.suptitle(textwrap.fill(sketch.title, width), x=0.01, ha="left", fontsize=11)
        for axes in grid[len(sketch.panels) :]:
            axes.remove()
        pairs = list(zip(grid, sketch.panels, strict=False))
        for axes, panel in pairs:
            _draw_panel(axes, panel)
        # Names go where the lines end, which is known once the axes have their place.
        figure.draw_without_rendering()
        for axes, panel in pairs:
            name_lines(axes, panel)
    return figure


def _draw_panel(axes: Axes, panel: Panel) -> None:
    axes.set_title(panel.title)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    bars = [mark for mark in panel.marks if isinstance(mark, Bars)]
    for place, one in enumerate(bars):
        _draw_bars(axes, one, place, len(bars))
    for mark in panel.marks:
        if isinstance(mark, Line):
            _draw_line(axes, mark)
        elif isinstance(mark, Level):
            axes.axhline(mark.y, color=GREY, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
    _set_scales(axes, panel)
    if panel.ticks:
        axes.set_xticks(range(len(panel.ticks)), panel.ticks)
    low, high = panel.y_range
    axes.set_ylim(bottom=low, top=high)
    if len([one for one in bars if one.label]) > 1:
        axes.legend(fontsize=8.5)


def _draw_bars(axes: Axes, bars: Bars, place: int, kinds: int) -> None:
    width = 0.76 / kinds
    middles = [at + (place - (kinds - 1) / 2) * width for at in range(len(bars.heights))]
    drawn = axes.bar(
        middles, bars.heights, width=0.94 * width, color=_color(bars.color), label=bars.label
    )
    if bars.texts:
        axes.bar_label(drawn, labels=list(bars.texts), padding=2, fontsize=8)


def _draw_line(axes: Axes, line: Line) -> None:
    color = _color(line.color)
    heights: list[Any] = [float("nan") if y is None else y for y in line.y]
    if line.low is not None and line.high is not None:
        axes.fill_between(line.x, line.low, line.high, color=color, alpha=0.18, linewidth=0)
    axes.plot(
        line.x,
        heights,
        color=color,
        linestyle=(0, (4, 2)) if line.dashed else "-",
        linewidth=1.2 if line.dashed else None,
        marker="o" if line.markers else None,
        zorder=2 if line.dashed else 3,
    )


def _set_scales(axes: Axes, panel: Panel) -> None:
    if panel.x_log is not None:
        axes.set_xscale("log", base=panel.x_log)
        places = sorted({x for mark in panel.marks if isinstance(mark, Line) for x in mark.x})
        if len(places) <= 12 and panel.x_log == 2:
            axes.set_xticks(places, [f"{place:g}" for place in places])
            axes.minorticks_off()
    if panel.y_log is not None:
        axes.set_yscale("log", base=panel.y_log)


def _color(number: int) -> str:
    return PALETTE[number % len(PALETTE)]
