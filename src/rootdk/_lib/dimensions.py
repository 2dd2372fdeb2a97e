"""Named dimensions: shapes that are checked by name and that speak when they do not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from rootdk._lib.errors import ArgumentError, ShapeError


@dataclass(frozen=True)
class Binding:
    """The size of one named dimension, and the argument that gave it.

    Attributes
    ----------
    size : int
        Number of elements along the dimension.
    argument : str
        The argument whose shape bound the name first.
    """

    size: int
    argument: str


Bindings = Mapping[str, Binding]
"""Named dimensions in the order in which they were bound. Never changed in place."""

NO_BINDINGS: Bindings = MappingProxyType({})


@dataclass(frozen=True)
class _Dimension:
    """One word of a pattern: a name or a size, maybe broadcast, maybe absent."""

    name: str
    broadcasts: bool
    optional: bool

    @property
    def size(self) -> int | None:
        return int(self.name) if self.name.isdecimal() else None

    def __str__(self) -> str:
        return f"1 or {self.name}" if self.broadcasts else self.name


def bind(
    argument: str, shape: Sequence[int], pattern: str, bindings: Bindings = NO_BINDINGS
) -> Bindings:
    """Check a shape against a pattern of names and return the names it binds.

    A pattern is a list of words, one per dimension:

    - ``queries``: any size if the name is not yet bound, otherwise the bound size;
    - ``3``: that size;
    - ``1|keys``: size 1, or as for ``keys`` (a dimension that broadcasts; size 1 binds
      nothing);
    - ``[batch]``, ``[1|batch]``: the same, and the dimension may be absent. Optional
      words stand first, and are dropped from the left.

    Parameters
    ----------
    argument : str
        The name the caller knows the array by.
    shape : sequence of int
        Its shape.
    pattern : str
        The words, separated by spaces.
    bindings : mapping of str to Binding
        What earlier arguments have bound.

    Returns
    -------
    mapping of str to Binding
        ``bindings`` and the names that this shape has added, as a new mapping.

    Raises
    ------
    ShapeError
        If the shape does not fit. The message names the argument, its shape, what was
        expected, and every bound dimension with the argument that bound it.
    ArgumentError
        If the pattern itself is malformed.

    Examples
    --------
    >>> bound = bind("query", (5, 64), "queries head_dim")
    >>> bound = bind("key", (7, 64), "keys head_dim", bound)
    >>> {name: binding.size for name, binding in bound.items()}
    {'queries': 5, 'head_dim': 64, 'keys': 7}
    >>> bind("value", (6, 32), "keys value_dim", bound)
    Traceback (most recent call last):
        ...
    rootdk._lib.errors.ShapeError: dimension 0 of value (keys) has size 6; expected 7
      value has shape (6, 32)
      expected (keys, value_dim)
      where queries = 5 (from query)
            head_dim = 64 (from query)
            keys = 7 (from key)
    """
    sizes = tuple(int(size) for size in shape)
    words = _parse(pattern)
    required = sum(not word.optional for word in words)
    if not required <= len(sizes) <= len(words):
        count = str(required) if required == len(words) else f"{required} to {len(words)}"
        fact = f"{argument} has {len(sizes)} dimensions; expected {count}"
        raise shape_error(fact, argument, sizes, pattern, bindings)

    bound = dict(bindings)
    present = words[len(words) - len(sizes) :]
    for position, (size, word) in enumerate(zip(sizes, present, strict=True)):
        if word.broadcasts and size == 1:
            continue
        expected = word.size if word.size is not None else _size_of(word.name, bound)
        if expected is None:
            bound[word.name] = Binding(size, argument)
        elif size != expected:
            alternative = "1 or " if word.broadcasts and expected != 1 else ""
            fact = (
                f"dimension {position} of {argument} ({word.name}) has size {size}; "
                f"expected {alternative}{expected}"
            )
            raise shape_error(fact, argument, sizes, pattern, bound)
    return MappingProxyType(bound)


def shape_error(
    fact: str, argument: str, shape: Sequence[int], pattern: str, bindings: Bindings
) -> ShapeError:
    """Return the error that states a fact and then everything known about the shapes.

    For what a pattern cannot say, such as a size that must divide another.

    Examples
    --------
    >>> bound = bind("query", (6, 5, 64), "num_heads queries head_dim")
    >>> print(shape_error(
    ...     "num_heads is 6; expected a multiple of num_kv_heads, 4",
    ...     "key", (4, 7, 64), "num_kv_heads keys head_dim", bound))
    num_heads is 6; expected a multiple of num_kv_heads, 4
      key has shape (4, 7, 64)
      expected (num_kv_heads, keys, head_dim)
      where num_heads = 6 (from query)
            queries = 5 (from query)
            head_dim = 64 (from query)
    """
    words = _parse(pattern)
    expected = ", ".join(f"[{word}]" if word.optional else str(word) for word in words)
    comma = "," if len(words) == 1 else ""
    sizes = tuple(int(size) for size in shape)
    lines = [fact, f"  {argument} has shape {sizes}", f"  expected ({expected}{comma})"]
    lead = "  where "
    for name, binding in bindings.items():
        lines.append(f"{lead}{name} = {binding.size} (from {binding.argument})")
        lead = " " * len(lead)
    if not bindings:
        lines.append("  no dimension is bound yet")
    return ShapeError("\n".join(lines))


def _size_of(name: str, bindings: Mapping[str, Binding]) -> int | None:
    binding = bindings.get(name)
    return None if binding is None else binding.size


def _parse(pattern: str) -> list[_Dimension]:
    words = [_parse_word(word, pattern) for word in pattern.split()]
    optional = [word.optional for word in words]
    if optional != sorted(optional, reverse=True):
        raise ArgumentError.unexpected("pattern", pattern, "its optional dimensions to stand first")
    return words


def _parse_word(word: str, pattern: str) -> _Dimension:
    optional = word.startswith("[") and word.endswith("]")
    inner = word[1:-1] if optional else word
    broadcasts = inner.startswith("1|")
    name = inner.removeprefix("1|")
    if not (name.isidentifier() or name.isdecimal()):
        raise ArgumentError.unexpected(
            "pattern", pattern, f"each word to be name, 1|name or [name], which {word!r} is not"
        )
    return _Dimension(name, broadcasts, optional)
