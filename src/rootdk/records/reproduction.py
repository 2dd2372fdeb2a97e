"""A script that shows one fact about a function, and needs neither rootdk nor its records."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from rootdk._lib.layouts import parse_layout
from rootdk.records.behaviour import Witness

__all__ = ["Recipe", "script"]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a script calls the function.

    ``imports`` are lines; ``function`` is an expression that they make known. ``call`` is an
    expression over ``function``, ``query_``, ``key_``, ``value_`` and ``arguments`` (a
    dict), the arrays already in the function's layout and kind. ``make`` turns the NumPy array
    ``array`` into the function's kind, ``cast`` follows it for another dtype, and ``take``
    turns ``result`` back. ``layout`` is that of the arrays, ``output_layout`` that of the result
    where it is another.
    """

    imports: tuple[str, ...]
    function: str
    call: str = "function(query_, key_, value_, **arguments)"
    make: str = "array"
    take: str = "np.asarray(result)"
    cast: str = ".astype(np.{dtype})"
    layout: str = "bhsd"
    output_layout: str | None = None


def script(recipe: Recipe, witness: Witness, *, title: str) -> str:
    """Return the text of a script that prints what was seen and what was expected."""
    return "\n".join(_lines(recipe, witness, title)) + "\n"


def _lines(recipe: Recipe, witness: Witness, title: str) -> Iterator[str]:
    for line in textwrap.wrap(title, 96):
        yield f"# {line}"
    yield "import numpy as np"
    yield from recipe.imports
    yield ""
    yield f"function = {recipe.function}"
    yield ""
    yield "# All arrays are (batch, heads, sequence, width); the last lines print what is seen."
    yield from witness.setup
    for name in ("query", "key", "value"):
        expression = getattr(witness, name)
        if expression != name:
            yield f"{name} = {expression}"
    yield ""
    yield from _making(recipe, witness)
    yield f"result = {recipe.call}"
    yield f"array = {recipe.take}"
    layout = parse_layout(recipe.output_layout or recipe.layout)
    yield f"output = {layout.from_script('array')}"
    yield ""
    yield from (f"# {line}" for line in textwrap.wrap(witness.statement, 96))
    yield f'print("seen", {witness.seen})'
    yield f'print("expected", {witness.expected})'


def _making(recipe: Recipe, witness: Witness) -> Iterator[str]:
    for name in ("query", "key", "value"):
        yield f"array = {parse_layout(recipe.layout).to_script(name)}"
        yield f"{name}_ = {_cast(recipe, witness)}"
    yield "arguments = {}"
    for name, expression in witness.arguments.items():
        yield f"array = {expression}"
        floats = expression.startswith("np.") and "float32" in expression
        made = recipe.make if expression.startswith("np.") else "array"
        made = _cast(recipe, witness) if floats else made
        yield f'arguments["{name}"] = {made}'


def _cast(recipe: Recipe, witness: Witness) -> str:
    """Return the expression that makes the function's kind of ``array``, in the witness's dtype."""
    if witness.dtype == "float32":
        return recipe.make
    return recipe.make + recipe.cast.format(dtype=witness.dtype)
