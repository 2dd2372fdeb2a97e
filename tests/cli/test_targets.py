"""TARGET: what can be named, and what is said of what cannot."""

from pathlib import Path
from typing import Any

import pytest
from cli.conftest import Face

from rootdk._lib.errors import TargetError
from rootdk.cli._failures import blamed_on, one_line


@pytest.mark.parametrize(
    ("factory", "args", "kwargs"),
    [
        ("one_argument", (3,), {}),
        ("several", (3, 4), {"scale": 5}),
        ("keywords", (), {"tokens": 3}),
    ],
)
def test_what_a_factory_may_return(
    face: Face, factory: str, args: tuple[int, ...], kwargs: dict[str, Any]
) -> None:
    assert face("check", f"factories_in_test.py:{factory}").exit_code == 0
    assert face("check", f"factories_in_test:{factory}").exit_code == 0
    for call in face.calls:
        assert (call["args"], call["kwargs"]) == (args, kwargs)
        assert type(call["model"]).__name__ == "Model"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("nowhere.py:build", "nowhere.py is no file; expected package.module:callable"),
        ("nowhere:build", "importing nowhere raised ModuleNotFoundError: No module named"),
        ("nowhere", "the target is 'nowhere'; expected package.module:callable, file.py:callable"),
        ("nowhere.gguf", "nowhere.gguf is no file; expected"),
        (":build", "the target is ':build'; expected"),
        ("factories_in_test.py:", "the target is 'factories_in_test.py:'; expected"),
        ("factories_in_test.py:none", "factories_in_test.py has no none; expected a callable"),
        ("factories_in_test.py:not_callable", "factories_in_test.py:not_callable is a int; expect"),
        (
            "factories_in_test.py:alone",
            "factories_in_test.py:alone returned a model without inputs",
        ),
        ("factories_in_test.py:four", "factories_in_test.py:four returned a tuple of 4; expected"),
        ("factories_in_test.py:nothing", "factories_in_test.py:nothing returned NoneType; expect"),
        ("factories_in_test.py:a_class", "factories_in_test.py:a_class returned the class Model"),
        (
            "factories_in_test.py:no_tokens",
            "argument 0 has the shape (1, 0); expected at least one",
        ),
        (
            "factories_in_test.py:raises",
            "factories_in_test.py:raises raised ValueError: no weights here (factories_in_test",
        ),
        ("factories_in_test.py:leaves", "factories_in_test.py:leaves raised SystemExit: done ("),
        (".", ". has no config.json; expected a transformers model directory"),
    ],
)
def test_a_wrong_target_is_one_line(face: Face, target: str, message: str) -> None:
    result = face("check", target)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"rootdk: error: {message}")
    assert result.stderr.count("\n") == 1
    assert face.calls == []


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def build(:\n", "broken_in_test.py raised SyntaxError: "),
        ("import not_there_at_all\n", "broken_in_test.py raised ModuleNotFoundError: No module"),
        ("\n\n1 / 0\n", "broken_in_test.py raised ZeroDivisionError: division by zero (broken_in"),
    ],
)
def test_a_file_that_cannot_be_imported_is_one_line(
    face: Face, tmp_path: Path, code: str, message: str
) -> None:
    (tmp_path / "broken_in_test.py").write_text(code)
    result = face("check", "broken_in_test.py:build")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert result.stderr.startswith(f"rootdk: error: {message}")


def test_a_file_can_import_its_neighbour(face: Face, tmp_path: Path) -> None:
    folder = tmp_path / "below"
    folder.mkdir()
    (folder / "neighbour_in_test.py").write_text("class M:\n    def forward(self): ...\n")
    (folder / "imports_in_test.py").write_text(
        "from neighbour_in_test import M\ndef build():\n    return M(), 1\n"
    )
    assert face("check", "below/imports_in_test.py:build").exit_code == 0


def test_a_file_called_like_a_module_does_not_replace_it(face: Face, tmp_path: Path) -> None:
    import json

    (tmp_path / "json.py").write_text(
        "class M:\n    def forward(self): ...\nbuild = lambda: (M(), 1)\n"
    )
    assert face("check", "json.py:build").exit_code == 0
    import json as still

    assert still is json


def test_one_line_shortens_a_long_message_and_joins_lines() -> None:
    assert one_line(ValueError("a\n  b")) == "ValueError: a b"
    assert len(one_line(ValueError("x" * 1000))) < 400


def test_blame_leaves_rootdks_own_errors_as_they_are() -> None:
    with pytest.raises(TargetError, match=r"^x raised ValueError: y"), blamed_on("x"):
        raise ValueError("y")
    with pytest.raises(TargetError, match=r"^y$"), blamed_on("x"):
        raise TargetError("y")
    with pytest.raises(KeyboardInterrupt), blamed_on("x"):
        raise KeyboardInterrupt
