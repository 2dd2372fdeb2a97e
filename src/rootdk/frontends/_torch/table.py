"""The table of ATen operations: how an entry is written, and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["TABLE", "Lowered", "argument", "entry", "is_tensor", "same", "tensors_of"]


@dataclass(slots=True)
class Lowered:
    """A canonical operation with the tensors it reads; ``each`` are attributes per output."""

    op: str
    inputs: list[Any]
    attrs: dict[str, Any] = field(default_factory=dict)
    each: list[dict[str, Any]] | None = None


Lowering = Callable[[str, Sequence[Any], Mapping[str, Any], Any], Lowered]

TABLE: dict[str, Lowering] = {}


def is_tensor(value: Any) -> bool:
    return hasattr(value, "untyped_storage")


def tensors_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    found: list[Any] = []
    for value in (*args, *kwargs.values()):
        if is_tensor(value):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found.extend(item for item in value if is_tensor(item))
    return found


def argument(
    args: Sequence[Any], kwargs: Mapping[str, Any], at: int, key: str, default: Any = None
) -> Any:
    return args[at] if len(args) > at else kwargs.get(key, default)


def entry(*names: str) -> Callable[[Lowering], Lowering]:
    def register(function: Lowering) -> Lowering:
        for name in names:
            TABLE[name] = function
        return function

    return register


def same(op: str, *names: str) -> None:
    """Operations whose inputs are all their tensors and whose arguments do not matter."""

    def handler(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> Lowered:
        return Lowered(op, tensors_of(args, kwargs))

    for name in names:
        TABLE[name] = handler
