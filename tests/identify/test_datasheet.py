"""The datasheet: what it prints, saves, compares and reproduces."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from identify import functions

import rootdk
from rootdk import identify
from rootdk._lib.errors import ArgumentError

TESTS = Path(__file__).parents[1]


def test_text() -> None:
    text = str(identify(functions.over_width))
    assert text.startswith("SUSPECT · 1 warning\n")
    assert "    output = softmax(query·keyᵀ/head_dim) · value\n" in text
    assert "RDK104" in text
    lines = [line for line in text.splitlines() if line.startswith("scale ")]
    assert "1/head_dim" in lines[0]


def test_a_healthy_function_says_so() -> None:
    assert str(identify(functions.standard)).startswith("HEALTHY · nothing wrong\n")


def test_a_function_that_was_not_understood_is_not_called_healthy() -> None:
    assert str(identify(functions.linear)).startswith(("NOT UNDERSTOOD", "SICK", "SUSPECT"))
    assert str(identify(functions.refuses)).startswith("NOT CALLED · the plain call: RuntimeError")


def test_saved_formats(tmp_path: Path) -> None:
    sheet = identify(functions.over_width)
    document = json.loads(sheet.save(tmp_path / "x.json").read_text("utf-8"))
    assert document["formula"] == "softmax(query·keyᵀ/head_dim) · value"
    assert document["findings"][0]["code"] == "RDK104"
    assert "rootdk" not in document["findings"][0]["reproduce"]
    assert document["behaviour"]["scale"]["law"]["name"] == "1/head_dim"
    markdown = sheet.save(tmp_path / "x.md").read_text("utf-8")
    assert "`output = softmax(query·keyᵀ/head_dim) · value`" in markdown
    assert "| scale | 1/head_dim |" in markdown
    with pytest.raises(ArgumentError, match=r"the suffix is '\.pdf'"):
        sheet.save(tmp_path / "x.pdf")


def test_two_runs_say_the_same() -> None:
    one, two = identify(functions.masked), identify(functions.masked, seed=7)
    assert one.diff(two) == ()


def test_differences() -> None:
    found = {d.key: d for d in identify(functions.standard).diff(identify(functions.over_width))}
    assert set(found) == {"scale"}
    assert (found["scale"].one, found["scale"].other) == ("1/√head_dim", "1/head_dim")
    sheet = identify(functions.standard, against=functions.masked)
    assert sheet.against == "identify.functions.masked"
    assert any(d.key == "mask" and d.one is None for d in sheet.differences)


def test_raise_for_findings() -> None:
    identify(functions.standard).raise_for_findings()
    with pytest.raises(rootdk.FindingsError, match="RDK104"):
        identify(functions.over_width).raise_for_findings()


def test_items() -> None:
    sheet = identify(functions.standard)
    assert sheet["scale"] == "1/√head_dim"
    with pytest.raises(KeyError, match="'colour' was not measured"):
        sheet["colour"]


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("over_width", "RDK104"),
        ("scale_behind", "RDK109"),
        ("over_the_queries", "RDK301"),
        ("bare", "RDK302"),
        ("over_width", "scale"),
    ],
)
def test_reproduce_runs_without_rootdk(name: str, what: str) -> None:
    script = identify(getattr(functions, name)).reproduce(what)
    assert "rootdk" not in script
    assert "import numpy as np" in script
    found = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(TESTS), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    seen, expected = found.stdout.split("expected")
    assert seen.removeprefix("seen").strip() != expected.strip()


def test_reproduce_knows_what_there_is() -> None:
    with pytest.raises(ArgumentError, match="nothing to reproduce for 'RDK999'"):
        identify(functions.standard).reproduce("RDK999")
