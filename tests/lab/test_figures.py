"""Every figure of the figures file, replayed and compared to the digit that is printed.

The file says how each figure was made and how many decimals it is printed with. A figure that
comes out otherwise fails by its name, unless the generator itself has changed its stream: then
the test says so.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import numpy as np
import pytest

from rootdk import lab
from rootdk.lab._mistakes import MISTAKES

FILE = resources.files("rootdk.lab") / "figures" / "seed-figures.json"
FIGURES: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))

# What NumPy's default generator gives since 1.17, as far as the figures ask.
FIRST_NORMALS = {
    0: (0.1257302210933933, -0.1321048632913019),
    42: (0.30471707975443135, -1.0399841062404955),
    20260718: (1.3018691205014803, 0.9725759772440161),
}


def stream_is_the_same(seed: int) -> bool:
    drawn = np.random.default_rng(seed).standard_normal(2)
    return tuple(drawn.tolist()) == FIRST_NORMALS[seed]


def replayed(name: str, *, seed: int | None = None, **parameters: Any) -> lab.Result:
    """Replay an experiment, or fail with the reason if its generator is another by now."""
    used = lab.experiment(name).default_seed if seed is None else seed
    if "replay" in lab.experiment(name).random and not stream_is_the_same(used):
        pytest.fail(
            f"NumPy {np.__version__} draws other normal numbers from seed {used} than the versions "
            f"that the figures were made with: {name} cannot be replayed with it"
        )
    return lab.run(name, method="replay", seed=seed, **parameters)


def assert_printed(figure: str, found: Any, printed: Any, digits: int) -> None:
    """Assert that numbers, rounded as NumPy does, are those that are printed."""
    rounded = np.round(np.asarray(found, dtype=float), digits)
    expected = np.asarray(printed, dtype=float)
    assert rounded.shape == expected.shape, figure
    for place in np.ndindex(expected.shape):
        assert rounded[place] == expected[place], (
            f"{figure}{list(place) or ''} is {np.asarray(found)[place]!r}, printed as "
            f"{rounded[place]} with {digits} decimals; the figures file has {expected[place]}"
        )


def rows_of(result: lab.Result, columns: list[str]) -> list[list[Any]]:
    return [[row[column] for column in columns] for row in result.table]


def decimals(number: float) -> int:
    return len(repr(number).partition(".")[2])


def test_assert_printed_can_fail() -> None:
    assert_printed("a figure", [0.15, 88.14999], [0.2, 88.1], 1)
    with pytest.raises(AssertionError, match=r"a figure\[1\] is .*2\.06.*printed as 2\.1"):
        assert_printed("a figure", [1.0, 2.06], [1.0, 2.0], 1)
    with pytest.raises(AssertionError, match="a figure"):
        assert_printed("a figure", [1.0], [1.0, 2.0], 1)


def test_a_changed_stream_is_said_and_not_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FIRST_NORMALS, 0, (0.5, 0.5))
    with pytest.raises(pytest.fail.Exception, match="other normal numbers from seed 0"):
        replayed("five-key-row")


def test_no_figure_is_left_out() -> None:
    """Every entry of the file has a test here whose name begins with it."""
    tested = [name.removeprefix("test_") for name in globals() if name.startswith("test_")]
    entries = set(FIGURES) - {"about"}
    assert {entry for entry in entries if not any(t.startswith(entry) for t in tested)} == set()


def test_four_key_row() -> None:
    figure = FIGURES["four_key_row"]
    result = replayed("four-key-row")
    parameters = result.settings["parameters"]
    assert list(parameters["query"]) == figure["query"]
    assert list(parameters["keys"]) == [entry for key in figure["keys"] for entry in key]
    for column in ("raw_scores", "scaled_scores"):
        assert list(result.table[column]) == figure[column], column
    for column in ("raw_weights", "scaled_weights"):
        assert_printed(column, result.table[column], figure[column], figure["digits"])


@pytest.fixture(scope="module")
def width_sweep() -> lab.Result:
    return replayed("width-sweep")


def test_width_sweep(width_sweep: lab.Result) -> None:
    figure = FIGURES["width_sweep"]
    assert width_sweep.settings["seed"] == 20260718
    columns = figure["columns"]
    assert set(columns) <= set(width_sweep.columns)
    for found, printed in zip(rows_of(width_sweep, columns), figure["rows"], strict=True):
        for column, value, number in zip(columns, found, printed, strict=True):
            name = f"width_sweep.{printed[0]}.{column}"
            assert_printed(name, value, number, figure["digits"])
    keys = width_sweep.settings["parameters"]["keys"]
    assert_printed("uniform", np.log(keys), figure["uniform_entropy_12_keys"], figure["digits"])


def test_width_sweep_as_it_is_printed(width_sweep: lab.Result) -> None:
    printed = FIGURES["width_sweep"]["printed_exactly"]
    for row in printed["rows"]:
        (found,) = width_sweep.table.where(head_dim=row[0])
        for column, text in zip(printed["columns"][1:], row[1:], strict=True):
            if text.endswith("%"):
                assert f"{np.round(found[column], 1)}%" == text, column
            else:
                assert f"{found[column]:.3f}" == text, column
    assert "from 4.0 to 88.1 %" in width_sweep.answer
    assert "0.2 and 0.0 %" in width_sweep.answer


def test_saturation_by_factor() -> None:
    figure = FIGURES["saturation_by_factor"]
    result = replayed("saturation-by-factor")
    assert list(result.table["scores"]) == figure["scores"]
    # The digits that are printed differ from number to number here: 0.0003 beside 0.0.
    digits = {"weights_times_1": 2, "weights_times_8": 4, "weights_times_0.01": 2}
    assert {name for name in figure if name.startswith("weights")} == set(digits)
    for column, places in digits.items():
        assert_printed(column, result.table[column], figure[column], places)


def test_variance_sampled_a() -> None:
    figure = FIGURES["variance_sampled_a"]
    result = replayed("variance-sampled")
    assert result.settings["seed"] == 0
    found = rows_of(result, figure["columns"])
    assert [row[0] for row in found] == [row[0] for row in figure["rows"]]
    for row, printed in zip(found, figure["rows"], strict=True):
        name = f"variance_sampled_a.{printed[0]}"
        for value, number, digits in zip(row, printed, figure["digits"], strict=True):
            assert_printed(name, value, number, digits)


def test_variance_sampled_a_at_4096() -> None:
    """Asked in words: about 4096, a standard deviation of about 64, and about 1 scaled."""
    assert "4096" in FIGURES["variance_sampled_a"]["also_asked"]
    (row,) = replayed("variance-sampled", widths=(4096,), pairs=2000).table
    error = row["standard_error_raw"]
    assert abs(row["variance_raw"] - 4096) < 4 * error
    assert abs(row["score_std"] - 64) < 4 * error / (2 * 64)
    assert abs(row["variance_scaled"] - 1) < 4 * error / 4096


def test_variance_sampled_b() -> None:
    figure = FIGURES["variance_sampled_b"]
    result = replayed("variance-sampled", seed=42, widths=(4, 64, 512), pairs=100_000)
    for row, printed in zip(rows_of(result, figure["columns"]), figure["rows"], strict=True):
        assert row[0] == printed[0]
        name = f"variance_sampled_b.{printed[0]}"
        assert_printed(f"{name}.raw", row[1], printed[1], decimals(printed[1]))
        assert_printed(f"{name}.scaled", row[2], printed[2], 3)


def test_five_key_row() -> None:
    figure = FIGURES["five_key_row"]
    table = replayed("five-key-row").table
    assert_printed("raw_scores", table["raw_scores"], figure["raw_scores"], 1)
    assert_printed("softmax_raw", table["softmax_raw"], figure["softmax_raw"], 3)
    assert_printed("softmax_scaled", table["softmax_scaled"], figure["softmax_scaled"], 3)
    for column in ("largest_jacobian_entry_raw", "largest_jacobian_entry_scaled"):
        assert_printed(column, table[column][0], figure[column], 4)


@pytest.mark.parametrize("method", ["replay", "exact"])
def test_variance_exact(method: lab.Method) -> None:
    figure = FIGURES["variance_exact"]
    result = lab.run("variance-exact", method=method)
    found = rows_of(result, figure["columns"])
    for row, printed in zip(found, figure["rows"], strict=False):
        for column, value, number in zip(figure["columns"], row, printed, strict=True):
            assert_printed(f"variance_exact.{printed[0]}.{column}", value, number, 3)
    (two,) = result.table.where(head_dim=2)
    counted = zip(two["score_values"], two["score_cases"], strict=True)
    assert {f"{v:g}": n for v, n in counted} == figure["scores_for_head_dim_2"]


def test_variance_exact_as_it_was_also_asked() -> None:
    assert "head_dim 8" in FIGURES["variance_exact"]["also_asked"]
    widths = (1, 2, 4, 6, 8)
    table = lab.run("variance-exact", method="exact", widths=widths).table
    assert table["variance_raw"] == (1.0, 2.0, 4.0, 6.0, 8.0)
    roots = [d**0.5 for d in widths]
    # The root of a whole number is correctly rounded; so is the quotient of it and one.
    np.testing.assert_allclose(table["variance_over_fourth_root_d"], roots, rtol=2**-51)
    twos = lab.run("variance-exact", method="exact", widths=widths, values=("-2", "2")).table
    assert twos["variance_raw"] == tuple(16.0 * d for d in widths)
    assert set(twos["variance_over_sqrt_d"]) == {16.0}


def test_entry_size() -> None:
    assert "4" in FIGURES["entry_size"]
    table = lab.run("variance-exact", method="exact", values=("-2", "2"), widths=(3, 64)).table
    assert table["variance_raw"] == (48.0, 1024.0)
    assert {value**0.5 for value in table["variance_over_sqrt_d"]} == {4.0}


def test_two_key_row() -> None:
    figure = FIGURES["two_key_row"]
    result = replayed("two-key-row")
    parameters = result.settings["parameters"]
    assert list(parameters["query"]) == figure["query"]
    assert list(parameters["keys"]) == [entry for key in figure["keys"] for entry in key]
    for row, case in zip(result.table, figure["cases"], strict=True):
        name = f"two_key_row.{case['scores']}"
        assert list(row["scores"]) == case["scores"], name
        for weight, printed in zip(row["weights"], case["weights"], strict=True):
            assert_printed(name, weight, printed, decimals(printed))
        entry = case["largest_jacobian_entry"]
        assert_printed(name, row["largest_jacobian_entry"], entry, 6)
    # The figure labels each bar with its weight to four decimals.
    texts = [mark.texts for panel in result.sketch.panels for mark in panel.marks]  # type: ignore[union-attr]
    assert texts == [("0.8808", "0.1192"), ("0.7311", "0.2689"), ("0.9999", "0.0001")]


def test_quadratic_growth() -> None:
    figure = FIGURES["quadratic_growth"]
    result = replayed("quadratic-growth", repeats=1)
    found = [[list(v) if isinstance(v, tuple) else v for v in row]
             for row in rows_of(result, figure["columns"])]  # fmt: skip
    assert found == figure["rows"]
    assert all(result.table["engine_agrees"])


def test_mistakes_named() -> None:
    assert [mistake.name for mistake in MISTAKES] == FIGURES["mistakes_named"]


def test_diagnosis_routine() -> None:
    """The routine in words: near 1, √d, 1/√d, off by √num_heads, and what to do otherwise."""
    pytest.importorskip("torch")
    words = FIGURES["diagnosis_routine"]
    numbers = lab.run("routine", **lab.experiment("routine").tiny).table.where(entries="numbers")
    named = {row["scale"]: row["by_spread"] for row in numbers}
    assert "near 1: fine" in words
    assert named["as it should be"] == "none"
    assert "near sqrt(d): missing" in words
    assert named["missing"] == "RDK101"
    assert "near 1/sqrt(d): twice" in words
    assert named["twice"] in {"RDK102", "RDK104"}
    assert "off by sqrt(num_heads): model width" in words
    assert named["model width"] == "RDK103"
