"""Every experiment, in its tiny form, by the same rules: a new one needs no edit here."""

import csv
import io
import json
from dataclasses import FrozenInstanceError
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rootdk import lab, plots
from rootdk._lib.errors import ArgumentError
from rootdk.cli._app import build

EVERY = [
    pytest.param(kind, method, id=f"{kind.name}-{method}")
    for kind in lab.all_experiments()
    for method in kind.methods()
]
KINDS = [pytest.param(kind, id=kind.name) for kind in lab.all_experiments()]
DOCUMENT = ["experiment", "method", "settings", "columns", "rows", "answer"]

Kind = type[lab.Experiment]


@pytest.fixture(scope="module")
def tiny() -> Any:
    """Runs an experiment in its tiny form; the first run of each is kept."""
    kept: dict[tuple[str, str], lab.Result] = {}

    def run(kind: Kind, method: lab.Method) -> lab.Result:
        if (kind.name, method) not in kept:
            for extra in kind.needs:
                pytest.importorskip(extra)
            kept[kind.name, method] = lab.run(kind.name, method=method, **kind.tiny)
        return kept[kind.name, method]

    return run


def untimed(kind: Kind, result: lab.Result) -> lab.Table:
    return result.table.without(kind.timed)


# ------------------------------------------------------------------ what it says of itself


@pytest.mark.parametrize("kind", KINDS)
def test_it_asks_a_question(kind: Kind) -> None:
    assert kind.question.endswith("?")
    assert kind.name == kind.name.lower()
    assert not set(kind.name) - set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert kind.methods(), "it offers at least one method"
    assert set(kind.random) <= {"replay", "sample", "exact"}
    assert kind.__doc__
    assert kind.__module__.rpartition(".")[2] == kind.name.replace("-", "_"), "one file, one name"


@pytest.mark.parametrize("kind", KINDS)
def test_its_defaults_are_valid_and_its_parameters_are_described(kind: Kind) -> None:
    made = kind.with_parameters({})
    for name, parameter in kind.parameters().items():
        assert getattr(made, name) == parameter.default
        assert parameter.says
        assert parameter.says[0] != " "
    assert set(kind.tiny) <= set(kind.parameters())
    with pytest.raises(FrozenInstanceError):
        made.anything = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", KINDS)
def test_it_can_be_called_by_its_name(kind: Kind) -> None:
    function = getattr(lab, kind.name.replace("-", "_"))
    with pytest.raises(ArgumentError, match=f"{kind.name} has no parameter 'widht'"):
        function(widht=3)
    assert kind.name.replace("-", "_") in dir(lab)


# ------------------------------------------------------------------ what it gives


@pytest.mark.parametrize(("kind", "method"), EVERY)
def test_its_settings_run_it_again_bit_for_bit(kind: Kind, method: lab.Method, tiny: Any) -> None:
    first = tiny(kind, method)
    kept = json.loads(first.json())["settings"]
    assert set(kept) == {"parameters", "seed", "generator", "versions"}
    assert set(kept["versions"]) == {"python", "rootdk", *kind.packages}
    assert "unknown" not in kept["versions"].values()
    again = lab.run(kind.name, method=method, seed=kept["seed"], **kept["parameters"])
    # repr and not ==, which takes 0.0 for −0.0 and 1 for True.
    assert repr(untimed(kind, again)) == repr(untimed(kind, first))
    assert again.answer == first.answer
    assert again.settings == first.settings


@pytest.mark.parametrize(("kind", "method"), EVERY)
def test_its_seed_matters_where_it_draws_and_only_there(
    kind: Kind, method: lab.Method, tiny: Any
) -> None:
    first = tiny(kind, method)
    other = lab.run(kind.name, method=method, seed=kind.default_seed + 1, **kind.tiny)
    same = repr(untimed(kind, other)) == repr(untimed(kind, first))
    if method not in kind.random:
        assert same
        assert first.settings["seed"] is None
        assert first.settings["generator"] is None
    else:
        assert not same
        assert first.settings["seed"] == kind.default_seed


@pytest.mark.parametrize(("kind", "method"), EVERY)
def test_its_columns_are_explained_and_its_answer_is_a_sentence(
    kind: Kind, method: lab.Method, tiny: Any
) -> None:
    result = tiny(kind, method)
    assert result.rows
    assert all(len(row) == len(result.columns) for row in result.rows)
    assert all(kind.meaning(column) for column in result.columns)
    timed = [c for c in result.columns for pattern in kind.timed if fnmatchcase(c, pattern)]
    assert set(timed) == set(kind.timed) & set(result.columns)
    assert result.answer.endswith(".")
    assert "\n" not in result.answer
    assert result.answer[0].isupper() or result.answer.startswith("check")
    assert kind.with_parameters(kind.tiny).answer(result.table.without(kind.timed)) == result.answer


@pytest.mark.parametrize(("kind", "method"), EVERY)
def test_its_json_and_csv_hold_the_table(kind: Kind, method: lab.Method, tiny: Any) -> None:
    result = tiny(kind, method)
    document = json.loads(result.json(), parse_constant=pytest.fail)
    assert list(document) == DOCUMENT
    assert document == result.document()
    assert document["columns"] == list(result.columns)
    assert json.dumps(document["rows"]) == json.dumps(result.rows)
    head, *lines = csv.reader(io.StringIO(result.csv()))
    assert head == list(result.columns)
    assert len(lines) == len(result.rows)


@pytest.mark.parametrize(("kind", "method"), EVERY)
def test_its_frame_is_the_table(kind: Kind, method: lab.Method, tiny: Any) -> None:
    result = tiny(kind, method)
    frame = result.frame
    assert list(frame.columns) == list(result.columns)
    assert len(frame) == len(result.rows)
    for column in result.columns:
        for cell, value in zip(frame[column], result.table[column], strict=True):
            assert cell == value or (value is None and cell != cell) or cell is value


# ------------------------------------------------------------------ what it shows


@pytest.mark.parametrize(("kind", "method"), EVERY)
def test_its_sketch_is_sound(kind: Kind, method: lab.Method, tiny: Any) -> None:
    result = tiny(kind, method)
    assert result.sketch.panels
    assert result.sketch.title
    for panel in result.sketch.panels:
        assert panel.marks
        assert panel.title
        assert panel.y_label
        lines = [mark for mark in panel.marks if isinstance(mark, lab.Line)]
        bars = [mark for mark in panel.marks if isinstance(mark, lab.Bars)]
        assert all(len(line.x) == len(line.y) for line in lines)
        assert all(line.label for line in lines), "a line is named"
        assert all(len(one.heights) == len(panel.ticks) for one in bars)
        assert all(not one.texts or len(one.texts) == len(one.heights) for one in bars)
        for log, values in (
            (panel.x_log, [x for line in lines for x in line.x]),
            (panel.y_log, [y for line in lines for y in line.y if y is not None]),
        ):
            assert log is None or all(value > 0 for value in values), "a logarithm of it exists"
    without_times = result.table.without(kind.timed)
    assert kind.with_parameters(kind.tiny).sketch(without_times).panels


@pytest.mark.parametrize(("kind", "method"), EVERY)
def test_it_saves_its_files_and_draws_the_same_twice(
    kind: Kind, method: lab.Method, tiny: Any, tmp_path: Path
) -> None:
    result = tiny(kind, method)
    files = result.save(tmp_path)
    stem = f"{kind.name}-{method}"
    assert [file.name for file in files] == [stem + s for s in (".csv", ".json", ".svg", ".png")]
    table, document, vector, raster = files
    assert table.read_text(encoding="utf-8") == result.csv()
    assert json.loads(document.read_text(encoding="utf-8")) == result.document()
    assert raster.stat().st_size > 1000
    again = io.StringIO()
    plots.write(result.figure(), again)
    assert vector.read_text(encoding="utf-8") == again.getvalue()


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_line_gives_the_same(kind: Kind, tiny: Any, tmp_path: Path) -> None:
    method = kind.methods()[0]
    result = tiny(kind, method)
    given = [f"--param={name}={written(value)}" for name, value in kind.tiny.items()]
    arguments = ["lab", "run", kind.name, "--method", method, *given, "--format", "json"]
    done = CliRunner().invoke(build(), arguments)
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert list(document) == DOCUMENT
    if not kind.timed:
        assert document == result.document()
    assert document["answer"] == result.answer
    assert document["settings"] == result.document()["settings"]


def written(value: object) -> str:
    """A value of a parameter as the command line takes it."""
    if isinstance(value, list | tuple):
        return ",".join(written(item) for item in value)
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)
