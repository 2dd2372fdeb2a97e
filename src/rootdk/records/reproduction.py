"""A script that shows one fact about a function, and needs neither rootdk nor its records."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from rootdk.records.behaviour import Witness

__all__ = ["Recipe", "script"]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a script calls the function.

    ``imports`` are lines; ``function`` is an expression that they make known. ``call`` is an
    expression over ``function``, ``query_``, ``key_``, ``value_`` and ``arguments`` (a
    dict), the arrays already in the function's layout and kind. ``make`` turns the NumPy array
    ``array`` into the function's kind, and ``take`` turns ``result`` back. ``layout`` is that
    of the arrays.
    """

    imports: tuple[str, ...]
    function: str
    call: str = "function(query_, key_, value_, **arguments)"
    make: str = "array"
    take: str = "np.asarray(result)"
    layout: str = "bhsd"


_TO_LAYOUT = {
    "bhsd": "array",
    "bshd": "array.transpose(0, 2, 1, 3)",
    "hsd": "array[0]",
    "shd": "array[0].transpose(1, 0, 2)",
    "bsd": "array[:, 0]",
    "sbhd": "array.transpose(2, 0, 1, 3)",
    "sd": "array[0, 0]",
}
_FROM_LAYOUT = {
    "bhsd": "array",
    "bshd": "array.transpose(0, 2, 1, 3)",
    "hsd": "array[None]",
    "shd": "array.transpose(1, 0, 2)[None]",
    "bsd": "array[:, None]",
    "sbhd": "array.transpose(1, 2, 0, 3)",
    "sd": "array[None, None]",
}


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
    yield from witness.setup
    yield f"query = {witness.query}  # (batch, heads, queries, head_dim)"
    yield f"key = {witness.key}"
    yield f"value = {witness.value}"
    for name, expression in witness.arguments.items():
        yield f"{name} = {expression}"
    yield ""
    yield from _making(recipe, witness)
    yield f"result = {recipe.call}"
    yield f"array = {recipe.take}"
    yield f"output = {_FROM_LAYOUT[recipe.layout]}"
    yield ""
    yield from (f"# {line}" for line in textwrap.wrap(witness.statement, 96))
    yield f'print("seen", {witness.seen})'
    yield f'print("expected", {witness.expected})'


def _making(recipe: Recipe, witness: Witness) -> Iterator[str]:
    yield "def made(array, layout=True):"
    yield f"    if layout: array = {_TO_LAYOUT[recipe.layout]}"
    yield "    array = np.ascontiguousarray(array)"
    yield f"    return {recipe.make}"
    yield ""
    inner = "made(query), made(key), made(value)"
    yield f"query_, key_, value_ = {inner}"
    pairs = ", ".join(
        f'"{name}": made({name}, False) if isinstance({name}, np.ndarray) else {name}'
        for name in witness.arguments
    )
    yield f"arguments = {{{pairs}}}"
