"""Ink: what is drawn is what the sketch says, nothing is clipped, and no state is shared."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rootdk import plots
from rootdk._lib.errors import ArgumentError
from rootdk.lab import Bars, Level, Line, Panel, Sketch
from rootdk.plots._labels import apart
from rootdk.plots._style import PALETTE


def panel(*marks: Line | Bars | Level, **options: object) -> Panel:
    return Panel(title="title", x_label="x", y_label="y (nats)", marks=marks, **options)  # type: ignore[arg-type]


def line(label: str = "raw", y: tuple[float | None, ...] = (1.0, 2.0, 4.0), **more: object) -> Line:
    return Line(label=label, x=(4.0, 16.0, 64.0), y=y, **more)  # type: ignore[arg-type]


def drawn(*panels: Panel, across: int = 2) -> object:
    return plots.draw(Sketch(title="A question?", panels=panels, across=across))


def test_a_line_is_drawn_with_its_name_in_its_colour() -> None:
    (axes,) = drawn(panel(line(color=1), x_log=2, y_log=2)).axes  # type: ignore[attr-defined]
    (made,) = axes.lines
    assert made.get_xdata().tolist() == [4.0, 16.0, 64.0]
    assert made.get_ydata().tolist() == [1.0, 2.0, 4.0]
    (name,) = axes.texts
    assert name.get_text() == "raw"
    assert name.get_color() == made.get_color() == PALETTE[1]
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["4", "16", "64"]


def test_bars_carry_their_texts_and_begin_at_their_base() -> None:
    bars = Bars.labelled((8.0, 0.125), digits=2, base=1.0)
    (axes,) = drawn(panel(bars, ticks=("a", "b"), y_log=10)).axes  # type: ignore[attr-defined]
    spans = [(patch.get_y(), patch.get_y() + patch.get_height()) for patch in axes.patches]
    assert spans == [(1.0, 8.0), (1.0, 0.125)]
    assert [text.get_text() for text in axes.texts] == ["8.00", "0.12"]
    assert Bars.labelled((-0.5,), digits=1).texts == ("−0.5",)


def test_a_gap_stays_a_gap_and_a_band_a_band() -> None:
    low, high = (0.5, 1.5, 3.0), (1.5, 2.5, 5.0)
    (axes,) = drawn(panel(line(y=(1.0, None, 4.0), low=low, high=high))).axes  # type: ignore[attr-defined]
    assert str(axes.lines[0].get_ydata()[1]) == "nan"
    assert len(axes.collections) == 1


def test_nothing_is_clipped_and_no_two_names_touch() -> None:
    close = [line(f"name {n}", (1.0, 2.0, 4.0 + 0.001 * n), color=n) for n in range(5)]
    figure = drawn(panel(*close), panel(*close, Level(label="a bound with a name", y=2.0)))
    figure.draw_without_rendering()  # type: ignore[attr-defined]
    width, height = figure.canvas.get_width_height()  # type: ignore[attr-defined]
    for axes in figure.axes:  # type: ignore[attr-defined]
        boxes = [text.get_window_extent() for text in axes.texts]
        for box in [*boxes, axes.get_tightbbox()]:
            assert box.x0 >= 0
            assert box.y0 >= 0
            assert box.x1 <= width + 1
            assert box.y1 <= height + 1
        for one, other in itertools.combinations(boxes, 2):
            assert abs(one.y0 - other.y0) > 0.8 * one.height


@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=8))
def test_names_are_pushed_apart_and_keep_their_order(heights: list[float]) -> None:
    moved = apart(heights, 10.0)
    for (a, b), (c, d) in itertools.combinations(zip(heights, moved, strict=True), 2):
        assert abs(b - d) > 10.0 - 1e-6
        assert a == c or (a < c) == (b < d)
    if len(heights) == 1:
        assert moved == heights


def test_a_figure_belongs_to_no_global_state() -> None:
    code = (
        "import sys; from rootdk import lab; lab.run('two-key-row').figure();"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_another_suffix_is_refused(tmp_path: object) -> None:
    with pytest.raises(ArgumentError, match=r"expected \.svg or \.png"):
        plots.write(drawn(panel(line())), tmp_path / "figure.jpeg")  # type: ignore[operator, arg-type]


def contrast(one: str, other: str) -> float:
    """The contrast of two colours as WCAG 2 has it: from 1 (the same) to 21."""

    def luminance(color: str) -> float:
        channels = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_the_first_colours_stand_out_from_the_page() -> None:
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21.0)
    assert all(contrast(color, "#FFFFFF") >= 3.0 for color in PALETTE[:3])


def test_bars_that_lie_stand_below_one_another_with_long_names() -> None:
    name = "a name of a bar that is far too long for one line beside it"
    marks = (Bars.labelled((0.5, 4.0), digits=1, base=1.0), Level(label="goal", y=1.0))
    (axes,) = drawn(panel(*marks, ticks=("short", name), lying=True, y_log=10)).axes  # type: ignore[attr-defined]
    assert [bar.get_width() for bar in axes.patches] == [-0.5, 3.0]
    assert [bar.get_x() for bar in axes.patches] == [1.0, 1.0]
    assert axes.get_ylim()[0] > axes.get_ylim()[1], "the first bar is on top"
    assert axes.get_xscale() == "log"
    assert axes.get_xlabel() == "y (nats)"
    names = [tick.get_text() for tick in axes.get_yticklabels()]
    assert names[0] == "short"
    assert " ".join(names[1].split("\n")) == name
    assert "\n" in names[1]
    assert [text.get_text() for text in axes.texts] == ["0.5", "4.0", "goal"]
