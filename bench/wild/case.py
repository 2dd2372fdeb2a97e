"""What a case is: a package, a name, and how to make a model with its input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["CASES", "Case", "Made", "add", "case"]


@dataclass(frozen=True)
class Made:
    """A model with random weights, and what it is called with."""

    model: Any
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] | None = None


@dataclass(frozen=True)
class Case:
    """One model of a package."""

    package: str
    name: str
    make: Callable[[], Made]

    @property
    def title(self) -> str:
        return f"{self.package}: {self.name}"


CASES: dict[str, Case] = {}


def add(package: str, name: str, make: Callable[[], Made]) -> None:
    """Enter a case; its title is its key."""
    made = Case(package, name, make)
    CASES[made.title] = made


def case(package: str, name: str) -> Callable[[Callable[[], Made]], Callable[[], Made]]:
    """Enter the function as a case."""

    def enter(make: Callable[[], Made]) -> Callable[[], Made]:
        add(package, name, make)
        return make

    return enter
