"""``rootdk check model.onnx`` on the command line."""

import json
from pathlib import Path

import numpy as np
import pytest
from frontends.onnx_graphs import LENGTH, WIDTH, attention, saved
from typer.testing import CliRunner

from rootdk.cli._app import build


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    saved(attention("mul", 1.0), tmp_path / "m.onnx")
    return tmp_path


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(build(), list(arguments))
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


def test_a_model_is_checked_on_inputs_that_are_made_up(folder: Path) -> None:
    status, out, _ = run("check", "m.onnx")
    assert status == 1
    assert out.startswith("INIT · SUSPECT · 1 warning among 1 attention site\nm.onnx: init (")
    assert "/layers.0/attn/MatMul_" in out
    assert f"made up (seed 0), not real data: x [1, 32, {WIDTH}]" in " ".join(out.split())
    assert run("check", "m.onnx", "--expect", "*=1.0")[0] == 0


def test_inputs_are_given_as_sizes_or_as_a_file(folder: Path, rng: np.random.Generator) -> None:
    _, out, _ = run("check", "m.onnx", "--input", f"x=3x7x{WIDTH}", "--format", "json")
    site = json.loads(out)["sites"][0]
    assert (site["batch"], site["keys"]) == (3, 7)
    np.save(folder / "x.npy", rng.normal(size=(2, LENGTH, WIDTH)))
    _, out, _ = run("check", "m.onnx", "--input", "x=x.npy", "--format", "json")
    told = json.loads(out)
    assert (told["sites"][0]["batch"], told["remarks"]) == (2, [])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--input", "x"), "--input is 'x'; expected NAME=FILE.npy or NAME=1x128"),
        (("--input", "x=nowhere.npy"), "expected sizes such as 1x128, or a .npy file that exists"),
        (("--input", "y=1x2x3"), "y is given; m.onnx takes x"),
        (("--input", "x=1x2"), "x is given 2 dimensions; expected 3"),
        (("--input", "x=pickle.npy"), "--input x: pickle.npy cannot be read"),
        (("--text", "hello"), "--text or --text-file is given for m.onnx, which is an ONNX model"),
    ],
)
def test_what_means_nothing_is_refused(folder: Path, options: tuple[str, ...], said: str) -> None:
    np.save(folder / "pickle.npy", np.asarray([object()]), allow_pickle=True)
    status, _, error = run("check", "m.onnx", *options)
    assert status == 2
    assert said in error


def test_input_is_refused_where_a_model_brings_its_own(folder: Path) -> None:
    status, _, error = run("check", "m.py:build", "--input", "x=1")
    assert status == 2
    assert "--input is given for m.py:build, which brings inputs of its own" in error
