"""``rootdk identify`` from the outside."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rootdk.cli._app import build

SOURCE = """
import numpy as np

def attend(query, key, value, mask=None):
    scores = query @ key.swapaxes(-1, -2) / {root}
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    terms = np.exp(scores - scores.max(-1, keepdims=True))
    return terms / terms.sum(-1, keepdims=True) @ value

def right(query, key, value, mask=None):
    return attend(query * query.shape[-1] ** 0.5, key, value, mask)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kernels.py"
    path.write_text(SOURCE.format(root="query.shape[-1]"), encoding="utf-8")
    return path


@pytest.fixture
def run():
    return lambda *given: CliRunner().invoke(build(), list(given))


def test_a_fault_exits_1(run, file: Path) -> None:
    result = run("identify", f"{file}:attend")
    assert result.exit_code == 1, result.output
    assert "output = softmax(query·keyᵀ/head_dim) · value" in result.output
    assert "RDK104" in result.output


def test_json(run, file: Path) -> None:
    result = run("identify", f"{file}:attend", "--format", "json", "--fail-on", "never")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["formula"] == "softmax(query·keyᵀ/head_dim) · value"


def test_what_is_printed_on_the_way_is_not_in_the_json(run, file: Path) -> None:
    noise = "print('imported')\n" + SOURCE.format(root="query.shape[-1]").replace(
        "    scores =", "    print('called')\n    scores =", 1
    )
    file.write_text(noise, encoding="utf-8")
    result = run("identify", f"{file}:attend", "--format", "json", "--fail-on", "never")
    assert json.loads(result.stdout)["formula"] == "softmax(query·keyᵀ/head_dim) · value"
    assert {"imported", "called"} <= set(result.stderr.split())


def test_a_declared_scale_is_silent(run, file: Path) -> None:
    result = run("identify", f"{file}:attend", "--expect", "1/head_dim", "--ignore", "RDK408")
    assert result.exit_code == 0, result.output


def test_against(run, file: Path) -> None:
    result = run("identify", f"{file}:attend", "--against", f"{file}:right")
    assert "scale: 1/head_dim here, 1/√head_dim there" in " ".join(result.output.split())


def test_reproduce(run, file: Path) -> None:
    result = run("identify", f"{file}:attend", "--reproduce", "RDK104")
    assert result.exit_code == 0
    assert "import numpy as np" in result.stdout
    assert "rootdk" not in result.stdout


def test_written_to_a_file(run, file: Path, tmp_path: Path) -> None:
    target = tmp_path / "sheet.md"
    result = run("identify", f"{file}:attend", "-o", str(target), "--fail-on", "never")
    assert result.exit_code == 0
    assert target.read_text("utf-8").startswith("# ")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["nowhere"], "the function is 'nowhere'"),
        (["nowhere:f"], "importing nowhere raised"),
        (["x.onnx"], "x.onnx is no file"),
        ([], "no function is named"),
        (["math:sqrt"], "expected query, key and value"),
    ],
)
def test_what_cannot_run_exits_2_in_one_line(run, given: list[str], said: str) -> None:
    result = run("identify", *given)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_names(run) -> None:
    assert "torch.sdpa.math" in run("identify", "--list").stdout.split()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("raise KeyError('nothing')", "NOT CALLED · the plain call: KeyError: 'nothing'"),
        ("return value[..., :1]", "NO USABLE OUTPUT · the plain call: it returned the shape"),
        ("return [1.0]", "NO USABLE OUTPUT · the plain call: it returned a list"),
        ("return query @ key.swapaxes(-1, -2) @ value * float('nan')", "it returned NaN"),
    ],
    ids=["raises", "another-shape", "a-list", "nan"],
)
def test_what_cannot_be_used_is_one_line_and_exits_2(run, tmp_path, body: str, says: str) -> None:
    path = tmp_path / "hostile.py"
    path.write_text(f"def attend(query, key, value):\n    {body}\n", encoding="utf-8")
    result = run("identify", f"{path}:attend")
    assert result.exit_code == 2, result.output
    assert says in result.stdout.splitlines()[0]
    assert "Traceback" not in result.output


def test_what_the_function_prints_is_kept_out_of_the_datasheet(run, tmp_path) -> None:
    path = tmp_path / "loud.py"
    source = SOURCE.format(root="query.shape[-1]").replace(
        "    scores", "    print('!')\n    scores", 1
    )
    path.write_text(source, encoding="utf-8")
    result = run("identify", f"{path}:attend", "--format", "json", "--fail-on", "never")
    assert json.loads(result.stdout)
    assert "!" in result.stderr
