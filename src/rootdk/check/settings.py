"""``[tool.rootdk]`` of a pyproject.toml: what a project says of its own attention."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rootdk._lib.errors import ArgumentError
from rootdk.check.expectations import Expectation, parse_expectations

__all__ = ["BARS", "Settings", "code_list", "find_pyproject", "one_of", "read_settings"]

BARS = ("error", "warning", "note", "never")
_KEYS = ("expect", "select", "ignore", "fail-on", "state")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a project declared, and in which file."""

    path: Path | None = None
    expect: Mapping[str, Expectation] = field(default_factory=dict)
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: str | None = None
    state: str = "auto"


def find_pyproject(start: Path) -> Path | None:
    """Return the nearest pyproject.toml at or above a folder, None where there is none."""
    start = start.resolve()
    return next(
        (
            folder / "pyproject.toml"
            for folder in (start, *start.parents)
            if (folder / "pyproject.toml").is_file()
        ),
        None,
    )


def read_settings(path: Path) -> Settings:
    """Return the settings in a pyproject.toml; empty where it has no ``[tool.rootdk]``.

    Raises
    ------
    ArgumentError
        If the file cannot be read, or holds a setting that is unknown or means nothing. The
        message names the file and the setting.
    """
    table = _table(path)
    unknown = [key for key in table if key not in _KEYS]
    if unknown:
        raise ArgumentError(
            f"[tool.rootdk] in {path} has {', '.join(unknown)}; expected only {', '.join(_KEYS)}"
        )
    try:
        return Settings(
            path=path,
            expect=parse_expectations(table.get("expect", {})),
            select=code_list(table.get("select", ()), "select"),
            ignore=code_list(table.get("ignore", ()), "ignore"),
            fail_on=one_of(table["fail-on"], BARS, "fail-on") if "fail-on" in table else None,
            state=one_of(table.get("state", "auto"), ("auto", "init", "trained"), "state"),
        )
    except ArgumentError as error:
        raise ArgumentError(f"[tool.rootdk] in {path}: {error}") from None


def code_list(value: object, name: str) -> tuple[str, ...]:
    """Return a sequence of rule codes; one string may hold several, with commas between."""
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, Sequence) or not all(isinstance(item, str) for item in value):
        raise ArgumentError.unexpected(name, value, "rule codes, such as ['RDK103']")
    return tuple(part.strip() for item in value for part in item.split(",") if part.strip())


def one_of(value: object, choices: Sequence[str], name: str) -> str:
    """Return a value that is one of the choices; refuse any other."""
    if isinstance(value, str) and value in choices:
        return value
    raise ArgumentError.unexpected(name, value, f"one of {', '.join(choices)}")


def _table(path: Path) -> Mapping[str, object]:
    try:
        with path.open("rb") as file:
            table = tomllib.load(file).get("tool", {}).get("rootdk", {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ArgumentError(f"{path} cannot be read: {error}") from None
    if not isinstance(table, Mapping):
        raise ArgumentError.unexpected(f"[tool.rootdk] in {path}", table, "a table")
    return table
