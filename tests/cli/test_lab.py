"""``rootdk lab``: lists, tables, files, and one line for what goes wrong."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rootdk import lab
from rootdk._lib.errors import MissingExtraError
from rootdk.cli._app import build
from rootdk.lab._registry import all_experiments

SMALL = ("saturation-by-factor", "two-key-row")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(build(), ["lab", *arguments])


@pytest.fixture
def small_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lab of two experiments, so that all of them are few."""
    kinds = tuple(kind for kind in all_experiments() if kind.name in SMALL)
    monkeypatch.setattr(lab, "all_experiments", lambda: kinds)


def test_every_experiment_is_listed_with_its_methods() -> None:
    text = run("list").stdout
    for kind in lab.all_experiments():
        (line,) = [line for line in text.splitlines() if line.startswith(f"{kind.name} ")]
        assert ", ".join(kind.methods()) in line
    listed = json.loads(run("list", "--format", "json").stdout)
    assert [one["name"] for one in listed] == list(lab.names())


def test_one_is_described_with_parameters_and_columns() -> None:
    text = run("list", "width-sweep").stdout
    for name in (*lab.experiment("width-sweep").parameters(), "raw_score_std"):
        assert f"  {name}" in text
    assert "widths=4,16,64,256,1024" in text


def test_a_table_ends_with_the_answer() -> None:
    done = run("run", "two-key-row")
    assert done.exit_code == 0
    lines = done.stdout.rstrip().splitlines()
    assert lines[0].startswith("two-key-row · replay · ")
    assert " ".join(lines).endswith(lab.two_key_row().answer)
    assert "0.8808, 0.1192" in done.stdout
    assert max(map(len, lines)) <= 100


def test_a_wide_table_is_turned_on_its_side() -> None:
    given = ("--param", "widths=4,8", "--param", "queries=20")
    lines = run("run", "width-sweep", *given).stdout.splitlines()
    assert [line.split() for line in lines if line.startswith("head_dim")] == [
        ["head_dim", "4", "8"]
    ]
    assert max(map(len, lines)) <= 100


def test_options_reach_the_experiment() -> None:
    arguments = ("--format", "json", "--seed", "7", "--param", "head_dim=16", "--param", "keys=3")
    document = json.loads(run("run", "five-key-row", *arguments).stdout)
    assert document["settings"]["seed"] == 7
    assert document["settings"]["parameters"] == {"head_dim": 16, "keys": 3}
    assert len(document["rows"]) == 3
    exact = run("run", "variance-exact", "--method", "exact", "--format", "json")
    assert json.loads(exact.stdout)["method"] == "exact"


def test_csv_is_the_table() -> None:
    head, *rows = csv.reader(io.StringIO(run("run", "two-key-row", "--format", "csv").stdout))
    assert head == list(lab.two_key_row().columns)
    assert len(rows) == 3


def test_files_are_written_and_named(tmp_path: Path) -> None:
    done = run("run", "two-key-row", "--out", str(tmp_path / "out"))
    assert done.exit_code == 0
    names = [f"two-key-row-replay{suffix}" for suffix in (".csv", ".json", ".png", ".svg")]
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == names
    assert all(name in done.stdout.replace("\n", "") for name in names)
    assert done.stdout.rstrip().endswith(".")


def test_all_run_one_after_another(small_lab: None, tmp_path: Path) -> None:
    done = run("run", "all", "--out", str(tmp_path))
    assert done.exit_code == 0
    assert len(list(tmp_path.iterdir())) == 8
    documents = json.loads(run("run", "all", "--format", "json").stdout)
    assert sorted(document["experiment"] for document in documents) == sorted(SMALL)
    assert json.loads(run("run", "all", "--method", "exact", "--format", "json").stdout) == []


def test_what_lacks_an_extra_is_skipped_with_the_reason(
    small_lab: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(*_: object) -> None:
        raise MissingExtraError("torch", extra="torch", purpose="to build a layer")

    monkeypatch.setattr(lab.experiment("two-key-row"), "replay", lacking)
    done = run("run", "all")
    assert done.exit_code == 0
    assert "two-key-row is skipped: torch is needed to build a layer" in done.stderr
    assert "saturation-by-factor · replay" in done.stdout
    alone = run("run", "two-key-row")
    assert (alone.exit_code, alone.stderr.count("\n")) == (2, 1)
    assert "pip install 'rootdk[torch]'" in alone.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "wdth-sweep"), "did you mean width-sweep?"),
        (("run", "two-key-row", "--format", "xml"), "--format is 'xml'"),
        (("run", "two-key-row", "--method", "exact"), "expected one of replay"),
        (("run", "two-key-row", "--param", "far"), "expected KEY=VALUE"),
        (("run", "two-key-row", "--param", "near=1"), "no parameter 'near'; expected query"),
        (("run", "width-sweep", "--param", "widths=0"), "each a whole number from 1"),
        (("run", "width-sweep", "--param", "scale=root"), "scale is 'root'"),
        (("run", "two-key-row", "--seed", "-1"), "expected a whole number from 0 up"),
        (
            ("run", "two-key-row", "--seed", str(2**70)),
            f"expected a whole number up to {2**63 - 1}",
        ),
        (("run", "two-key-row", "--jobs", "0"), "expected a whole number from 1 up"),
        (("run", "all", "--param", "far=1,2"), "expected one experiment"),
        (("run", "all", "--format", "csv"), "expected --out"),
        (("run", "all", "--method", "guess"), "expected one of replay, sample, exact"),
        (("list", "--format", "csv"), "--format is 'csv'"),
        (("list", "nothing"), "there is no experiment 'nothing'"),
    ],
)
def test_what_means_nothing_is_one_line(arguments: tuple[str, ...], said: str) -> None:
    done = run(*arguments)
    assert (done.exit_code, done.stderr.count("\n"), done.stdout) == (2, 1, "")
    assert said in done.stderr
