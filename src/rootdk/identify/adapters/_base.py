"""What a file of this folder defines."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

from rootdk.identify.adapted import Adapted
from rootdk.records import Frame, Source

__all__ = ["Adapter", "Wanted", "described", "importable", "source_of"]

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What the caller said about a function; None leaves the choice to the adapter."""

    layout: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    name: str | None = None


class Adapter(ABC):
    """Knows one signature: which functions have it, and how they are called.

    Attributes
    ----------
    name : str
        One word for the signature.
    order : int
        When it is asked: the more a function must be to be accepted, the earlier. ``plain``
        is 100.
    """

    name: ClassVar[str]
    order: ClassVar[int] = 10

    @abstractmethod
    def accepts(self, function: Any) -> bool:
        """Whether this adapter knows how to call the function; never raises."""

    @abstractmethod
    def adapt(self, function: Any, wanted: Wanted) -> Adapted:
        """Return the function, ready to be called."""

    def targets(self) -> Mapping[str, Callable[[], Any]]:
        """Return functions of this signature by a short name, and what makes each."""
        return {}

    @staticmethod
    def parameters(function: Any) -> Mapping[str, inspect.Parameter]:
        """Return the parameters of a function, none where they cannot be known."""
        # A torch module is called through a method that takes anything.
        forward = getattr(function, "forward", None)
        called = forward if callable(forward) and not inspect.isfunction(function) else function
        try:
            return inspect.signature(called).parameters
        except (TypeError, ValueError):
            return {}


def source_of(function: Any) -> Source | None:
    """Return where a Python function is defined, None for one that is not Python."""
    inner = inspect.unwrap(function) if callable(function) else function
    code = getattr(getattr(inner, "__func__", inner), "__code__", None)
    if code is None:
        methods = vars(type(inner))
        method = methods.get("forward") or methods.get("__call__")
        code = getattr(method, "__code__", None)
    if code is None:
        return None
    frame = Frame(file=code.co_filename, line=code.co_firstlineno, function=code.co_name)
    return Source(frames=(frame,))


def described(function: Any, wanted: Wanted) -> str:
    """Return the name of a function: as it was given, or its module and qualified name."""
    if wanted.name is not None:
        return wanted.name
    if inspect.ismodule(function):
        return function.__name__
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", None) or type(function).__name__
    return f"{module}.{name}" if module not in (None, "builtins", "__main__") else str(name)


def importable(function: Any) -> tuple[tuple[str, ...], str]:
    """Return the import lines and the expression by which a script gets at a function.

    For one that has no place to be imported from, the expression leaves that to the reader.
    """
    if inspect.ismodule(function):
        package, _, name = function.__name__.rpartition(".")
        return (f"from {package} import {name}" if package else f"import {name}",), name
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", "")
    if not module or not name or "<" in name or module == "__main__":
        return (), f"None  # put the function here: {name or type(function).__name__}"
    root = name.partition(".")[0]
    return (f"from {module} import {root}",), name
