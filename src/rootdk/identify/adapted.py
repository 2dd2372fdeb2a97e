"""A function as the instrument sees it: what it takes, how it is called, what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from rootdk._lib.layouts import Layout
from rootdk.identify.libraries import Library
from rootdk.identify.vocabulary import Word
from rootdk.records import Recipe, Source

__all__ = ["Adapted", "Calling"]

Calling = Callable[[Any, Any, Any, dict[str, Any]], Any]
"""From query, key and value in the function's layout, and its own arguments, to its result."""

Converting = Callable[[str, Any, tuple[int, int, int, int]], dict[str, Any] | None]
"""From a meaning, a canonical value and the shape of the scores to own arguments."""

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Adapted:
    """A function of any signature, ready to be called.

    Attributes
    ----------
    words : mapping
        Its optional arguments by our meaning.
    base : mapping
        Own arguments of the plain call by name; a value that is a Word stands for a size or a
        neutral value of that meaning.
    convert : callable, optional
        ``convert(meaning, value, shape)`` gives the own arguments for a canonical value and
        the shape of the scores, where the words do not say enough; None where they do.
    same_width : bool
        Whether value_dim must be head_dim.
    recipe : callable
        From the library and the layouts to how a script calls the function.
    by_default : tuple of str
        Meanings that are on unless they are switched off, as ``base`` does.
    """

    name: str
    call: Calling
    libraries: tuple[Library, ...]
    layout: Layout
    output_layout: Layout | None = None
    words: Mapping[str, Word] = field(default_factory=lambda: _NOTHING)
    base: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    convert: Converting | None = None
    same_width: bool = False
    source: Source | None = None
    imports: tuple[str, ...] = ()
    expression: str = "None"
    call_text: str = "function(query_, key_, value_, **arguments)"
    by_default: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    dtypes: tuple[str, ...] | None = None

    def recipe(self, library: Library, output_layout: Layout | None) -> Recipe:
        """Return how a script calls the function with the arrays of a library."""
        out = output_layout or self.output_layout or self.layout
        return Recipe(
            imports=tuple(dict.fromkeys((*library.imports, *self.imports))),
            function=self.expression,
            call=self.call_text,
            make=library.make,
            take=library.take,
            cast=library.cast,
            layout=self.layout.text,
            output_layout=out.text,
        )
