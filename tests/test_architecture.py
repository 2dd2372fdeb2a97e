"""The shape of the code: layers, names, sizes, and words that have no place in it."""

import ast
import importlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from frameworks import BEHIND_A_DOOR, FRAMEWORKS, REPOSITORY
from fresh_interpreter import assert_light

PACKAGE = REPOSITORY / "src" / "rootdk"
MODULES = sorted(PACKAGE.rglob("*.py"))

MOST_LINES = 400
LONG_MODULES: dict[str, tuple[int, str]] = {}
"""Modules allowed to be longer: how long, and what keeps them in one piece."""

DRAWERS = frozenset({"common", "helper", "helpers", "misc", "util", "utils"})
"""Names that say nothing about what is inside."""

TEXT_SUFFIXES = frozenset({"", ".in", ".json", ".md", ".py", ".toml", ".txt", ".typed", ".yml"})
OUT_OF_PLACE = {
    r"(?m)^(<{7}|>{7}) ": "a conflict between two versions that was not resolved",
    r"[/](work|root|home)/\w": "a path on somebody's machine",
    r"\b(DESIGN|STYLE|GLOSSARY|TRACING)[.]md\b": "a document that is not in this repository",
    r"\bshared/\w": "a folder that is not in this repository",
    r"\b(pypi|pythonhosted|npmjs|debian)[.](org|com)\b": "the host of a package registry",
    r"(?i)\b(this|previous|helper|coding) session\b": "how the code was made",
}


def relative(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def dotted(path: Path) -> str:
    """The name under which a file of the package is imported."""
    name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    return name.removesuffix(".__init__")


IMPORTABLE = [path for path in MODULES if path.name != "__main__.py"]
LIGHT = [path for path in IMPORTABLE if not dotted(path).startswith(tuple(BEHIND_A_DOOR))]


# ------------------------------------------------------------------ layers


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    command = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [command, "--no-cache", "--no-logo"],
        cwd=folder,
        env={"PYTHONPATH": str(folder / "src"), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the sources and of the contracts, to break."""
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "src" / "rootdk", tmp_path / "src" / "rootdk", ignore=ignore)
    return tmp_path


def test_contracts_see_an_import_that_points_up(checkout: Path) -> None:
    with (checkout / "src/rootdk/_lib/errors.py").open("a") as module:
        module.write("\n\ndef peek():\n    import rootdk.records\n")
    result = lint_imports(checkout)
    assert result.returncode == 1, result.stderr
    assert "rootdk._lib.errors -> rootdk.records" in result.stdout


def test_contracts_see_a_framework_where_none_belongs(checkout: Path) -> None:
    with (checkout / "src/rootdk/records/finding.py").open("a") as module:
        module.write("\n\ndef peek():\n    import torch\n")
    result = lint_imports(checkout)
    assert result.returncode == 1, result.stderr
    assert "rootdk.records.finding -> torch" in result.stdout


def test_contracts_see_a_package_without_a_place(checkout: Path) -> None:
    package = checkout / "src/rootdk/newcomer"
    package.mkdir()
    (package / "__init__.py").touch()
    result = lint_imports(checkout)
    assert result.returncode == 1, result.stderr
    assert "newcomer" in result.stdout


class ImportsOnImport(ast.NodeVisitor):
    """Collects the packages that a module imports as soon as it is imported itself."""

    def __init__(self) -> None:
        self.packages: set[str] = set()

    def visit_Import(self, node: ast.Import) -> None:
        self.packages |= {alias.name.partition(".")[0] for alias in node.names}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.packages.add((node.module or "").partition(".")[0])

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """What a function imports, it imports when it is called."""

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        """What a function imports, it imports when it is called."""

    def visit_If(self, node: ast.If) -> None:
        for_types = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for statement in node.orelse if for_types else (*node.body, *node.orelse):
            self.visit(statement)


def framework_imports(source: str) -> set[str]:
    visitor = ImportsOnImport()
    visitor.visit(ast.parse(source))
    return visitor.packages & FRAMEWORKS


@pytest.mark.parametrize("path", LIGHT, ids=relative)
def test_frameworks_are_imported_inside_functions_only(path: Path) -> None:
    assert framework_imports(path.read_text(encoding="utf-8")) == set()


def test_no_module_imports_a_framework_by_way_of_another() -> None:
    names = [dotted(path) for path in LIGHT]
    assert_light(
        f"import importlib; [*map(importlib.import_module, {names})]", forbidden=FRAMEWORKS
    )


def test_every_door_has_something_behind_it() -> None:
    behind = set(IMPORTABLE) - set(LIGHT)
    for package, reason in BEHIND_A_DOOR.items():
        sources = [p.read_text("utf-8") for p in behind if dotted(p).startswith(package)]
        assert any(map(framework_imports, sources))
        assert reason


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("try:\n    import os\nexcept ImportError:\n    import torch.nn", {"torch"}),
        ("class A:\n    from jax import numpy", {"jax"}),
        ("if TYPE_CHECKING:\n    import torch\nelse:\n    import onnx", {"onnx"}),
        ("if sys:\n    import scipy", {"scipy"}),
        ("def f():\n    import torch", set()),
    ],
)
def test_the_search_for_framework_imports_can_fail(source: str, found: set[str]) -> None:
    assert framework_imports(source) == found


# ------------------------------------------------------------------ names


def test_every_folder_is_a_package() -> None:
    """A folder without __init__.py would be missed by the import contracts and the wheel."""
    folders = {path.parent for path in MODULES}
    missing = [relative(folder) for folder in folders if not (folder / "__init__.py").exists()]
    assert missing == []


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_names_say_what_is_inside(path: Path) -> None:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    assert not {part.strip("_") for part in parts} & DRAWERS


def public_names(package: ModuleType) -> set[str]:
    """The names that a package offers of its own: neither private, nor a module, nor borrowed."""
    return {
        name
        for name, value in vars(package).items()
        if not name.startswith("_")
        and not isinstance(value, ModuleType)
        and getattr(value, "__module__", None) is not None
        and f"{value.__module__}.".startswith(f"{package.__name__}.")
    }


@pytest.mark.parametrize("path", IMPORTABLE, ids=relative)
def test_all_is_what_there_is(path: Path) -> None:
    """A package lists exactly what it offers; what any module lists is there."""
    module = importlib.import_module(dotted(path))
    listed = getattr(module, "__all__", ())
    assert [name for name in listed if not hasattr(module, name)] == []
    assert len(listed) == len(set(listed))
    if path.name == "__init__.py":
        assert public_names(module) - set(listed) == set()


# ------------------------------------------------------------------ sizes


def too_long(lines: int, allowed: tuple[int, str] | None) -> bool:
    return lines > (MOST_LINES if allowed is None else allowed[0])


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_no_module_hides_another(path: Path) -> None:
    name = path.relative_to(PACKAGE).as_posix()
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert not too_long(lines, LONG_MODULES.get(name)), (
        f"{name} has {lines} lines; split it, or say in LONG_MODULES what keeps it in one piece"
    )


def test_exceptions_for_long_modules_are_needed() -> None:
    for name, (limit, reason) in LONG_MODULES.items():
        lines = len((PACKAGE / name).read_text(encoding="utf-8").splitlines())
        assert MOST_LINES < lines <= limit, f"{name} has {lines} lines: update or remove it"
        assert reason


# ------------------------------------------------------------------ words


def text_files() -> Iterator[Path]:
    """Every text file of the repository that people wrote or that is generated into it."""
    for entry in sorted(REPOSITORY.iterdir()):
        if entry.name in {"src", "tests", "docs", "examples", "bench", "requirements", ".ci"}:
            yield from (path for path in sorted(entry.rglob("*")) if is_text(path))
        elif is_text(entry):
            yield entry


def is_text(path: Path) -> bool:
    hidden = {"__pycache__"} & set(path.parts) or path.parent.name.endswith(".egg-info")
    return path.is_file() and path.suffix in TEXT_SUFFIXES and not hidden


def out_of_place(text: str) -> list[str]:
    """What a text says that it should not, with the line it stands in."""
    return [
        f"line {text.count(chr(10), 0, match.start()) + 1}: {match.group()!r}: {why}"
        for pattern, why in OUT_OF_PLACE.items()
        for match in re.finditer(pattern, text)
    ]


@pytest.mark.parametrize("path", list(text_files()), ids=relative)
def test_texts_stand_on_their_own(path: Path) -> None:
    assert out_of_place(path.read_text(encoding="utf-8")) == []


def test_the_search_for_words_out_of_place_can_fail() -> None:
    text = "fine\nsee {}work/notes and {}.md, as an earlier one did"
    assert len(out_of_place(text.format("/", "GLOSSARY"))) == 2
    assert out_of_place(text.format("", "README")) == []
    assert len(out_of_place(f"{'<' * 7} ours\na\n{'=' * 7}\nb\n{'>' * 7} theirs\n")) == 2
    assert out_of_place("an onnxruntime InferenceSession, a training session") == []


def test_there_are_texts_to_search() -> None:
    names = {relative(path) for path in text_files()}
    assert {"README.md", "Makefile", "src/rootdk/__init__.py", ".ci/run"} <= names
