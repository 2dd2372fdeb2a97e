"""A sketch as a Matplotlib figure."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any

from rootdk._lib.extras import require
from rootdk.lab import Bars, Level, Line, Panel, Sketch
from rootdk.plots._labels import name_bars, name_lines
from rootdk.plots._style import GREY, PALETTE, RC

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw"]

PANEL_HEIGHT = 3.2
"""In inches."""

TITLE_CHARACTERS = 12
"""Of the title, in one inch."""

TICK_CHARACTERS = 40
"""Of the name of a bar that lies, before it takes another line."""


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
    width = max(panel_width(panel, across) for panel in sketch.panels) * across
    height = max(map(panel_height, sketch.panels))
    size = (max(width, 5.5), height * down + 0.5)
    with matplotlib.rc_context(dict(RC)):
        figure: Figure = module.Figure(figsize=size, layout="constrained")
        grid = figure.subplots(down, across, squeeze=False).flatten()
        title = textwrap.fill(sketch.title, int(size[0] * TITLE_CHARACTERS))
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        for axes in grid[len(sketch.panels) :]:
            axes.remove()
        pairs = list(zip(grid, sketch.panels, strict=False))
        for axes, panel in pairs:
            _draw_panel(axes, panel)
        # Names go where the lines end, which is known once the axes have their place.
        figure.draw_without_rendering()
        for axes, panel in pairs:
            name_lines(axes, panel)
            name_bars(axes, panel)
    return figure


def panel_width(panel: Panel, across: int) -> float:
    """Return the inches that a panel needs for its bars' texts and the names of its ticks."""
    kinds = sum(isinstance(mark, Bars) and bool(mark.texts) for mark in panel.marks)
    longest = max(map(len, panel.ticks), default=0)
    if panel.lying:
        return 3.0 + 0.07 * min(longest, TICK_CHARACTERS)
    need = 1.0 + len(panel.ticks) * max(0.42 * kinds, 0.085 * longest + 0.08)
    return max(need, 3.4 if across > 2 else 4.4)


def panel_height(panel: Panel) -> float:
    """Return the inches that a panel needs for the names of bars that lie."""
    lines = max((len(_wrapped(tick)) for tick in panel.ticks), default=1)
    return max(PANEL_HEIGHT, 0.9 + 0.14 * (lines + 1) * len(panel.ticks) if panel.lying else 0.0)


def _wrapped(tick: str) -> list[str]:
    return textwrap.wrap(tick, TICK_CHARACTERS) or [""]


def _draw_panel(axes: Axes, panel: Panel) -> None:
    if panel.lying:
        draw_lying(axes, panel)
        return
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
    if panel.y_range != (None, None):
        axes.set_ylim(*panel.y_range)
    if bars and panel.y_range == (None, None):
        axes.margins(y=0.1)


def draw_lying(axes: Axes, panel: Panel) -> None:
    """Draw one kind of bars from left to right, the first on top, with levels across them."""
    axes.set_title(panel.title)
    axes.set_xlabel(panel.y_label)
    axes.set_ylabel(panel.x_label)
    for mark in panel.marks:
        if isinstance(mark, Bars):
            lengths = [height - mark.base for height in mark.heights]
            places = range(len(lengths))
            color = _color(mark.color)
            drawn = axes.barh(places, lengths, height=0.7, left=mark.base, color=color)
            axes.bar_label(drawn, labels=list(mark.texts), padding=3, fontsize=7.5)
        elif isinstance(mark, Level):
            axes.axvline(mark.y, color=GREY, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
    if panel.y_log is not None and _all_above_0(panel, "y"):
        axes.set_xscale("log", base=panel.y_log)
        _number_log_axis(axes, panel.y_log, lying=True)
    ticks = ["\n".join(_wrapped(tick)) for tick in panel.ticks]
    axes.set_yticks(range(len(ticks)), ticks, fontsize=8.0)
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.16)
    axes.set_ylim(len(ticks) - 0.05, -0.65)


def _draw_bars(axes: Axes, bars: Bars, place: int, kinds: int) -> None:
    width = 0.76 / kinds
    middles = [at + (place - (kinds - 1) / 2) * width for at in range(len(bars.heights))]
    drawn = axes.bar(
        middles,
        [height - bars.base for height in bars.heights],
        width=0.94 * width,
        bottom=bars.base,
        color=_color(bars.color),
    )
    if bars.texts:
        axes.bar_label(drawn, labels=list(bars.texts), padding=2, fontsize=7.5)


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
    if panel.x_log is not None and _all_above_0(panel, "x"):
        axes.set_xscale("log", base=panel.x_log)
        places = sorted({x for mark in panel.marks if isinstance(mark, Line) for x in mark.x})
        if len(places) <= 12 and panel.x_log == 2:
            axes.set_xticks(places, [f"{place:g}" for place in places])
            axes.minorticks_off()
    if panel.y_log is not None and _all_above_0(panel, "y"):
        axes.set_yscale("log", base=panel.y_log)
        _number_log_axis(axes, panel.y_log)


def _all_above_0(panel: Panel, axis: str) -> bool:
    """Tell whether an axis can be logarithmic; a scale that hides points shows nothing."""
    values: list[float | None] = []
    for mark in panel.marks:
        if isinstance(mark, Line):
            values += mark.x if axis == "x" else [*mark.y, *(mark.low or ()), *(mark.high or ())]
        elif axis == "y":
            values += [mark.y] if isinstance(mark, Level) else [*mark.heights, mark.base]
    return all(value > 0.0 for value in values if value is not None)


def _number_log_axis(axes: Axes, base: int, *, lying: bool = False) -> None:
    """Write plain numbers, and enough of them where the axis covers little."""
    ticker = require("matplotlib.ticker", extra="lab", purpose="to draw")
    low, high = axes.get_xlim() if lying else axes.get_ylim()
    axis = axes.xaxis if lying else axes.yaxis
    decades = math.log10(high / low)
    steps = (1.0, 2.0, 5.0) if base == 10 and decades < 2.5 else (1.0,)
    axis.set_major_locator(ticker.LogLocator(base=base, subs=steps, numticks=12))
    axis.set_major_formatter(ticker.FuncFormatter(_plain_number))
    axis.set_minor_locator(ticker.NullLocator())


def _plain_number(value: float, place: int | None = None) -> str:
    """Return a number without an exponent, if it is no longer for it."""
    del place
    if 1e-4 <= value < 1e5:
        return f"{value:g}"
    return f"$10^{{{round(math.log10(value))}}}$"


def _color(number: int) -> str:
    return PALETTE[number % len(PALETTE)]
