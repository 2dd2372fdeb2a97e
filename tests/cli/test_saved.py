"""``rootdk check FILE`` and ``rootdk capture``: saved tensors on the command line."""

from pathlib import Path

import numpy as np
import pytest
from cli.conftest import Face
from frontends.saved import attend, npz
from typer.testing import CliRunner

from rootdk.cli._app import build

MODEL = """\
import torch

def build():
    print("built")
    return torch.nn.TransformerEncoderLayer(8, 2, 8, batch_first=True), (torch.ones(1, 3, 8),)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(build(), list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_a_file_is_checked_like_a_model(folder: Path, rng: np.random.Generator) -> None:
    arrays = attend(rng, 1.0)
    named = {f"a.{name}": arrays[name] for name in ("query", "key", "weights")}
    npz(folder / "x.npz", named)
    status, out, _ = run("check", "x.npz")
    assert status == 1
    assert out.startswith("UNKNOWN · SUSPECT · 1 warning among 1 attention site\nx.npz: unknown (")
    assert "float32, nothing was run" in " ".join(out.split())
    assert "nothing stored with the tensors accounts for it" in " ".join(out.split())
    assert run("check", "x.npz", "--expect", "a=1.0")[0] == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--text", "hello"), "--text or --text-file is given for x.npz, which holds saved"),
        (("--max-tokens", "3"), "--max-tokens is given"),
        (("--dtype", "float16"), "--dtype is given"),
        (("--attn", "eager"), "--attn is given"),
    ],
)
def test_what_needs_a_run_is_refused(folder: Path, options: tuple[str, ...], said: str) -> None:
    (folder / "x.npz").touch()
    status, _, error = run("check", "x.npz", *options)
    assert status == 2
    assert said in error


@pytest.mark.parametrize("name", ["x.npz", "x.safetensors"])
def test_a_missing_or_empty_file_is_one_line(folder: Path, name: str) -> None:
    status, _, error = run("check", name)
    assert (status, error.count("\n")) == (2, 1)
    assert f"{name} is no file" in error
    (folder / name).touch()
    status, _, error = run("check", name)
    assert (status, error.count("\n")) == (2, 1)
    assert name in error


def test_a_captured_model_is_checked_from_its_file(folder: Path) -> None:
    pytest.importorskip("torch")
    (folder / "captured_in_test.py").write_text(MODEL)
    status, out, error = run("capture", "captured_in_test.py:build", "-o", "x.safetensors")
    assert status == 0, error
    assert error.startswith("built\n")
    assert out == f"x.safetensors: {(folder / 'x.safetensors').stat().st_size} bytes\n"
    status, out, _ = run("check", "x.safetensors")
    assert status == 0
    assert out.startswith("INIT · HEALTHY · nothing wrong at the one attention site\n")


def test_capture_refuses_another_ending(face: Face) -> None:
    result = face("capture", "factories_in_test.py:one_argument", "-o", "x.bin")
    assert result.exit_code == 2
    assert "path is 'x.bin'; expected a name in .npz or .safetensors" in result.stderr
