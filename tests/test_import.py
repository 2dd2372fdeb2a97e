"""Importing rootdk is free: no framework, no wait; and its names are what they say."""

import copy
import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from frameworks import FACES, FRAMEWORKS
from fresh_interpreter import assert_light, assert_quick, run_fresh

import rootdk

EVERY_NAME = "import rootdk; [getattr(rootdk, name) for name in rootdk.__all__]"
VERBS = ("attention", "check", "diagnose")


def test_import_loads_no_framework_and_no_face() -> None:
    assert_light("import rootdk", forbidden=FRAMEWORKS | FACES)


def test_import_takes_under_0_3_seconds_on_top_of_numpy() -> None:
    assert_quick("import rootdk", seconds=0.3)


def test_using_every_public_name_loads_no_framework_and_no_face() -> None:
    assert_light(EVERY_NAME, forbidden=FRAMEWORKS | FACES)


def test_the_command_line_answers_without_a_framework() -> None:
    assert_light("import rootdk.cli", forbidden=FRAMEWORKS)


def test_guards_pass_an_innocent_package(tmp_path: Path) -> None:
    write_package(tmp_path, "innocent", "import colorsys")
    assert_light("import innocent", forbidden=frozenset({"torch"}), path=tmp_path)
    assert_quick("import innocent", seconds=0.3, path=tmp_path)
    assert "colorsys" in run_fresh("import innocent", path=tmp_path).packages


def test_guard_sees_a_framework_imported_by_a_submodule(tmp_path: Path) -> None:
    write_package(tmp_path, "torch", "")
    write_package(tmp_path, "guilty", "import guilty.inner")
    (tmp_path / "guilty" / "inner.py").write_text("import torch")
    with pytest.raises(AssertionError, match="'import guilty' imports torch"):
        assert_light("import guilty", forbidden=frozenset({"torch", "jax"}), path=tmp_path)


def test_guard_sees_a_slow_import(tmp_path: Path) -> None:
    write_package(tmp_path, "slow", "import time; time.sleep(0.1)")
    with pytest.raises(AssertionError, match=r"takes 0\.\d+ s; expected under 0\.05 s"):
        assert_quick("import slow", seconds=0.05, repeats=2, path=tmp_path)


def test_guard_reports_an_import_that_fails(tmp_path: Path) -> None:
    write_package(tmp_path, "broken", "raise RuntimeError('broken on purpose')")
    with pytest.raises(AssertionError, match="broken on purpose"):
        run_fresh("import broken", path=tmp_path)


def test_every_public_name_resolves_and_no_other() -> None:
    assert rootdk.__all__ == sorted(rootdk.__all__)
    for name in rootdk.__all__:
        assert getattr(rootdk, name) is not None
        assert name in dir(rootdk)
    assert set(rootdk._HOMES) == set(rootdk.__all__) - {"__version__"}
    with pytest.raises(AttributeError, match="module 'rootdk' has no attribute 'attentoin'"):
        rootdk.attentoin  # type: ignore[attr-defined]  # noqa: B018


def test_star_import_gives_the_public_names() -> None:
    names: dict[str, object] = {}
    exec("from rootdk import *", names)
    assert set(names) - {"__builtins__"} == set(rootdk.__all__)


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_callable_however_it_was_imported(verb: str) -> None:
    statements = (
        f"import rootdk; f = rootdk.{verb}",
        f"from rootdk import {verb} as f",
        f"import rootdk.{verb}; f = rootdk.{verb}",
        f"import rootdk.{verb} as f",
        f"from rootdk.{verb} import {verb} as g; import rootdk; f = rootdk.{verb}",
    )
    code = "assert callable(f); import inspect; assert inspect.signature(f).parameters"
    for statement in statements:
        process = subprocess.run(
            [sys.executable, "-c", f"{statement}\n{code}"], capture_output=True, check=False
        )
        assert process.returncode == 0, f"{statement}\n{process.stderr.decode()}"


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_its_function(verb: str) -> None:
    module = getattr(rootdk, verb)
    function = getattr(module, verb)
    assert inspect.isfunction(function)
    assert inspect.signature(module) == inspect.signature(function)
    with pytest.raises(TypeError, match=rf"^{verb}\(\)"):
        module(no_such_argument=1)
    assert pickle.loads(pickle.dumps(module)) is module
    assert copy.deepcopy(module) is module


def write_package(folder: Path, name: str, source: str) -> None:
    package = folder / name
    package.mkdir()
    (package / "__init__.py").write_text(source)
