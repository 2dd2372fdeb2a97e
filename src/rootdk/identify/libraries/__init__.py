"""The array libraries that functions take: one a file, tried in their order."""

from __future__ import annotations

from functools import cache

from rootdk._lib.discovery import instances
from rootdk._lib.errors import ArgumentError
from rootdk.identify.libraries._base import Library

__all__ = ["Library", "libraries", "library_named"]


@cache
def libraries() -> tuple[Library, ...]:
    """Return every library, NumPy first, then by name of file and plug-in."""
    found = instances(
        __name__,
        Library,  # type: ignore[type-abstract]
        group="rootdk.libraries",
        key=lambda one: one.name,
    )
    return tuple(sorted(found, key=lambda one: one.order))


def library_named(name: str) -> Library:
    """Return the library of a name.

    Examples
    --------
    >>> library_named("numpy").dtypes
    ('float32', 'float64')
    """
    for one in libraries():
        if one.name == name:
            return one
    known = ", ".join(one.name for one in libraries())
    raise ArgumentError.unexpected("the array library", name, f"one of {known}")
