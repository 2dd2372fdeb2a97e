"""Attention functions with a known answer: faults with the code each must get, and sound ones.

A file ``<framework>_<topic>.py`` beside this one holds functions that are decorated with
``fault`` or ``sound``. What identify must be told about a function (its layout, what its author
declared) stands in the decorator, as its author would write it in a test.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["CASES", "FAULTS", "SOUND", "Case", "collected", "fault", "sound"]

FRAMEWORKS = ("numpy", "torch", "jax")
_MARK = "_identify_case"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One function and what must be said of it.

    ``code`` is what must stand first, None where nothing is wrong. ``also`` are further codes
    that are true of it, of any severity for a fault, of severity note for a sound function.
    ``options`` go to ``identify``. ``slow`` keeps a case out of the short run.
    """

    function: Callable[..., Any]
    code: str | None
    title: str
    also: frozenset[str] = frozenset()
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def framework(self) -> str:
        return self.file.partition("_")[0]

    @property
    def file(self) -> str:
        return self.function.__module__.rpartition(".")[2]

    @property
    def identity(self) -> str:
        """For test ids: framework, code and function."""
        return f"{self.framework}-{self.code or 'sound'}-{self.function.__name__}"


def fault(code: str, title: str, *, also: str = "", **options: Any) -> Callable[..., Any]:
    """Mark a function whose first finding must have this code."""
    return _marker(code, title, also, options)


def sound(title: str, *, notes: str = "", **options: Any) -> Callable[..., Any]:
    """Mark a function about which nothing may be said but these notes."""
    return _marker(None, title, notes, options)


def _marker(code: str | None, title: str, also: str, options: dict[str, Any]) -> Callable[..., Any]:
    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        case = Case(
            function=function,
            code=code,
            title=title,
            also=frozenset(also.split()),
            options=options,
        )
        setattr(function, _MARK, case)
        return function

    return mark


def collected(framework: str) -> tuple[Case, ...]:
    """The cases of one framework, in the order of files and of functions in them."""
    found = []
    for path in sorted(Path(__file__).parent.glob(f"{framework}_*.py")):
        module = importlib.import_module(f"faults_identify.{path.stem}")
        members = (getattr(value, _MARK, None) for value in vars(module).values())
        found += [c for c in members if c is not None and c.function.__module__ == module.__name__]
    return tuple(found)


CASES: tuple[Case, ...] = tuple(case for name in FRAMEWORKS for case in collected(name))
FAULTS = tuple(case for case in CASES if case.code is not None)
SOUND = tuple(case for case in CASES if case.code is None)
