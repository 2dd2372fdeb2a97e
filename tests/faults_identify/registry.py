"""Attention functions with a known answer: faults with the code each must get, and sound ones.

A file ``<framework>_<topic>.py`` beside this one holds functions that are decorated with
``fault`` or ``sound``, and ``cases`` collects them. What identify must be told about a function
(its layout, what its author declared) stands in the decorator, as its author would write it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["MARK", "Case", "fault", "sound"]

MARK = "_identify_case"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One function and what must be said of it.

    ``code`` is what must stand first, None where nothing is wrong. ``also`` are further codes
    that are true of it, of any severity for a fault, of severity note for a sound function.
    ``options`` are what ``identify`` is told of it.
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
        setattr(function, MARK, case)
        return function

    return mark
