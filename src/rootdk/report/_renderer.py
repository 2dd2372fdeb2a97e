"""What a file of this folder defines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rootdk._lib.errors import ArgumentError
from rootdk.records import Diagnosis

__all__ = ["Renderer", "require_diagnosis"]


@dataclass(frozen=True)
class Renderer:
    """A format: its name, the suffixes of its files, and the function that writes it.

    ``render(record, **options)`` returns the record as text. Options that only another
    format knows are the renderer's to ignore.
    """

    name: str
    suffixes: tuple[str, ...]
    render: Callable[..., str]

    def __call__(self, record: object, **options: Any) -> str:
        """Return the record as text."""
        return self.render(record, **options)


def require_diagnosis(record: object, name: str) -> Diagnosis:
    """Return the record if it is one that the format called ``name`` can show."""
    if not isinstance(record, Diagnosis):
        raise ArgumentError(
            f"the format {name} shows a Diagnosis; it was given a {type(record).__name__}"
        )
    return record
