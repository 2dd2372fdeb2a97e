"""Running experiments: names, options, results, and what happens without the extras."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from fresh_interpreter import assert_light

from rootdk import lab
from rootdk._lib.errors import ArgumentError, MissingExtraError
from rootdk.lab import Context, Panel, Sketch, Table
from rootdk.lab._result import result_of


@dataclass(frozen=True, kw_only=True)
class Odd(lab.Experiment):
    """An experiment outside the folder, to see what the base asks of one."""

    name: ClassVar[str] = "odd"
    question: ClassVar[str] = "Does it?"
    order: ClassVar[int] = 999
    columns: ClassVar[Mapping[str, str]] = {"value": "a value"}

    column: str = lab.parameter("value", "name of the column")

    def exact(self, context: Context) -> list[dict[str, object]]:
        """One row."""
        context.progress(0, 1, "the only row")
        return [{self.column: np.float64("nan")}, {self.column: (np.int64(3), True)}]

    def answer(self, table: Table) -> str:
        """It does."""
        return "It does."

    def sketch(self, table: Table) -> Sketch:
        """Nothing much."""
        level = lab.Level(label="", y=1.0)
        panel = Panel(title="a", x_label="b", y_label="c", marks=(level,))
        return Sketch(title="t", panels=(panel,))


def test_cells_are_plain_values() -> None:
    result = result_of(Odd(), "exact", Context(seed=0))
    assert result.rows == ((None,), ((3, True),))
    assert result.csv() == 'value\n""\n"[3, true]"\n'
    assert repr(result) == "Result('odd', method='exact', rows=2, columns=['value'])"


def test_a_column_without_a_meaning_is_refused() -> None:
    with pytest.raises(TypeError, match="odd says nothing of its column 'other'"):
        result_of(Odd(column="other"), "exact", Context(seed=0))


def test_a_cell_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="a cell holds"):
        Table.of([{"a": object()}])


def test_a_method_that_is_not_offered_is_refused() -> None:
    with pytest.raises(ArgumentError, match="expected one of exact, which odd offers"):
        result_of(Odd(), "replay", Context(seed=0))
    with pytest.raises(ArgumentError, match="method is 'guess'"):
        lab.run("two-key-row", method="guess")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "hint"), [("width-swep", "did you mean width-sweep"), ("zzz", "rootdk lab list")]
)
def test_an_unknown_name_is_refused_with_a_hint(name: str, hint: str) -> None:
    with pytest.raises(ArgumentError, match=hint):
        lab.run(name)


@pytest.mark.parametrize("options", [{"seed": -1}, {"seed": 1.5}, {"jobs": 0}, {"jobs": True}])
def test_options_that_mean_nothing_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ArgumentError, match=r"expected a whole number from [01] up"):
        lab.run("two-key-row", **options)  # type: ignore[arg-type]


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    """Said before anything is run."""
    file = tmp_path / "results"
    file.write_text("", encoding="utf-8")
    for folder in (file, file / "inside"):
        with pytest.raises(ArgumentError, match="expected a folder, or a place where one can be"):
            lab.run("two-key-row", folder=folder)


def test_underscores_stand_for_hyphens() -> None:
    assert lab.experiment("two_key_row") is lab.experiment("two-key-row")
    assert lab.two_key_row().experiment == "two-key-row"
    with pytest.raises(AttributeError, match="no attribute 'three_key_row'"):
        lab.three_key_row  # noqa: B018


def test_progress_is_told_in_order() -> None:
    heard: list[tuple[int, int, str]] = []
    lab.run("variance-exact", widths=(1, 2), progress=lambda *told: heard.append(told))
    assert heard == [(0, 2, "head_dim 1"), (1, 2, "head_dim 2")]


def test_a_table_is_filtered_and_read_by_column() -> None:
    table = Table.of([{"a": 1, "b": 2.0}, {"a": 3, "b": 4.0}, {"a": 3}])
    assert table["b"] == (2.0, 4.0, None)
    assert table.where(a=3).rows == ((3, 4.0), (3, None))
    assert table.without({"a"}).columns == ("b",)
    assert "b" in table
    assert len(table) == 3


def test_keys_that_do_not_fit_the_query_are_refused() -> None:
    with pytest.raises(ArgumentError, match="expected a multiple of the query's 4"):
        lab.run("four-key-row", keys=(1.0, 2.0, 3.0))


# ------------------------------------------------------------------ at the edges


EDGES = {
    "nothing varies": ("width-sweep", {"query_std": 0.0, "widths": (4, 8), "queries": 20}),
    "one key": ("width-sweep", {"keys": 1, "widths": (4,), "queries": 20}),
    "one row": ("width-sweep", {"widths": (1,), "queries": 1}),
    "all along": ("width-sweep", {"correlation": 1.0, "mean": 5.0, "widths": (8,), "queries": 30}),
    "an entry of 0": ("variance-exact", {"values": ("0",), "widths": (1, 2)}),
    "no variance": ("variance-sampled", {"query_std": 0.0, "pairs": 10, "widths": (4,)}),
    "no softmax": ("gradient", {"keys": 1, "widths": (4,), "queries": 5}),
    "one score": ("saturation-by-factor", {"scores": (1.0,), "factors": (2.0,)}),
    "one entry": ("four-key-row", {"query": (1.0,), "keys": (1.0,)}),
    "one of five": ("five-key-row", {"keys": 1, "head_dim": 1}),
    "one token": ("quadratic-growth", {"tokens": (1,), "repeats": 1}),
}


@pytest.mark.parametrize("edge", EDGES)
def test_the_smallest_forms_run_and_are_drawn(edge: str, tmp_path: Path) -> None:
    name, parameters = EDGES[edge]
    result = lab.run(name, **parameters)  # type: ignore[arg-type]
    assert len(result.save(tmp_path)) == 4
    for word in ("falls", "rises"):
        assert f"{word} from 0.000 to 0.000" not in result.answer


@pytest.mark.parametrize(
    ("name", "parameters", "said", "not_said"),
    [
        ("five-key-row", {}, "next to no gradient passes", "nothing"),
        ("five-key-row", {"head_dim": 4}, "Jacobian entry 0.2", "next to no gradient"),
        ("width-sweep", {"widths": (64, 4), "queries": 50}, "raw spread falls", "rises from 7"),
        ("width-sweep", {"widths": (8,), "queries": 50}, "At head_dim 8", "From head_dim"),
        ("four-key-row", {"query": (0.0,), "keys": (1.0, 2.0)}, "stays at 0.500", "falls"),
    ],
)
def test_an_answer_says_what_the_numbers_bear_out(
    name: str, parameters: dict[str, object], said: str, not_said: str
) -> None:
    answer = lab.run(name, **parameters).answer  # type: ignore[arg-type]
    assert said in answer
    assert not_said not in answer


@pytest.mark.parametrize(
    ("name", "parameters", "said"),
    [
        ("saturation-by-factor", {"factors": (0.0,)}, "expected numbers above 0"),
        ("two-key-row", {"far": (1.0, 2.0, 3.0)}, "far gives 3 scores; expected 2"),
        ("two-key-row", {"keys": (1.0,) * 12}, "keys gives 3 scores; expected 2"),
    ],
)
def test_a_form_of_which_the_answer_would_be_false_is_refused(
    name: str, parameters: dict[str, object], said: str
) -> None:
    with pytest.raises(ArgumentError, match=said):
        lab.run(name, **parameters)  # type: ignore[arg-type]


# ------------------------------------------------------------------ without the extras


@pytest.mark.parametrize("missing", ["pandas", "matplotlib"])
def test_a_missing_extra_is_named(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, missing, None)
    result = lab.run("two-key-row")
    with pytest.raises(MissingExtraError, match=rf"^{missing} is needed .*'rootdk\[lab\]'"):
        result.frame if missing == "pandas" else result.figure()


def test_tables_need_nothing_but_numpy() -> None:
    code = "from rootdk import lab; lab.two_key_row().json(); lab.width_sweep(widths=(4,)).csv()"
    assert_light(code, forbidden=frozenset({"pandas", "matplotlib", "scipy", "torch", "joblib"}))


def test_a_result_is_found_again_in_its_files(tmp_path: Path) -> None:
    result = lab.run("five-key-row", head_dim=16, seed=3)
    files = {file.suffix: file for file in result.save(tmp_path / "new" / "folder")}
    kept = json.loads(files[".json"].read_text(encoding="utf-8"))
    assert kept["settings"]["seed"] == 3
    assert kept["settings"]["parameters"] == {"head_dim": 16, "keys": 5}
    assert kept["rows"] == [list(row) for row in result.rows]
    assert files[".png"].read_bytes().startswith(b"\x89PNG")
    svg = files[".svg"].read_text(encoding="utf-8")
    assert "<svg" in svg
    assert "dc:date" not in svg
