"""The pytest plug-in: what it adds to a suite that asks for it, and to one that does not."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from frameworks import FACES, FRAMEWORKS, REPOSITORY
from fresh_interpreter import run_fresh

SOUND = """
import numpy as np

def attend(query, key, value):
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    terms = np.exp(scores - scores.max(-1, keepdims=True))
    return terms / terms.sum(-1, keepdims=True) @ value
"""
UNSCALED = SOUND.replace(" / np.sqrt(query.shape[-1])", "")
ASKS = """
def test_attend(assert_attention):
    assert_attention(attend, expect="1/sqrt(head_dim)")
"""


def run_pytest(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run pytest with the plug-in, in another process, on one file of tests."""
    (folder / "test_kernel.py").write_text(text)
    path = os.pathsep.join([str(REPOSITORY / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "rootdk.testing.plugin", "-q", *options]
    return subprocess.run(
        [*command, "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder)],
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
        check=False,
    )


def test_a_sound_function_passes(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, SOUND + ASKS, "-W", "error")
    assert result.returncode == 0, result.stdout
    assert "1 passed" in result.stdout


def test_a_faulty_one_fails_with_its_code_and_the_datasheet(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, UNSCALED + ASKS)
    assert result.returncode == 1, result.stdout
    assert "RDK101 missing-scale (warning)" in result.stdout
    assert "to fix: Multiply the scores" in result.stdout
    assert "rootdk datasheet" in result.stdout
    assert "_assertions.py" not in result.stdout


def test_a_suite_that_does_not_ask_loads_nothing(tmp_path: Path) -> None:
    heavy = sorted({"numpy", *FRAMEWORKS, *FACES})
    text = f"""
import sys

def test_nothing_is_loaded():
    assert not set({heavy!r}) & set(sys.modules)
    ours = {{name for name in sys.modules if name.startswith("rootdk")}}
    assert ours == {{"rootdk", "rootdk.testing", "rootdk.testing.plugin"}}
"""
    result = run_pytest(tmp_path, text, "-W", "error")
    assert result.returncode == 0, result.stdout


def test_a_fixture_of_the_suite_comes_first(tmp_path: Path) -> None:
    text = """
import pytest

@pytest.fixture
def assert_attention():
    return 7

def test_own(assert_attention):
    assert assert_attention == 7
"""
    result = run_pytest(tmp_path, text, "--strict-markers")
    assert result.returncode == 0, result.stdout


def test_the_plug_in_adds_no_option_and_no_hook() -> None:
    from rootdk.testing import plugin

    assert not [name for name in vars(plugin) if name.startswith("pytest_")]


def test_the_entry_point_names_the_module() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["entry-points"]["pytest11"] == {"rootdk": "rootdk.testing.plugin"}


@pytest.mark.parametrize("code", ["import rootdk.testing", "import rootdk.testing.plugin"])
def test_importing_it_costs_nothing(code: str) -> None:
    loaded = run_fresh(code)
    assert not loaded.packages & (FRAMEWORKS | FACES | {"array_api_compat"})
