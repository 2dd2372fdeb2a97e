"""Parameters of an experiment: a type, a default, bounds, and how text becomes a value."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from rootdk._lib.errors import ArgumentError

__all__ = ["Parameter", "parameter", "parameters_of"]

T = TypeVar("T")
_SAYS = "rootdk.lab"
_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_CALLED = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


def parameter(
    default: T,
    says: str,
    *,
    least: float | None = None,
    most: float | None = None,
    choices: Iterable[str] = (),
    check: Callable[[Any], object] | None = None,
) -> T:
    """Declare a parameter as a field of an experiment.

    Parameters
    ----------
    default : int, float, str, bool, None, or tuple of one of these
        Its value unless another is given.
    says : str
        What it is, with its unit, in one line.
    least, most : float, optional
        Bounds of the number, or of each number of a tuple.
    choices : iterable of str, optional
        The only texts allowed.
    check : callable, optional
        Called with each text or number; raises ArgumentError on one that means nothing.

    Returns
    -------
    field
        The dataclass field; typed as the default, so that an annotation fits.
    """
    about = _About(says=says, least=least, most=most, choices=tuple(choices), check=check)
    field: T = dataclasses.field(default=default, metadata={_SAYS: about})
    return field


@dataclass(frozen=True, kw_only=True)
class _About:
    says: str
    least: float | None
    most: float | None
    choices: tuple[str, ...]
    check: Callable[[Any], object] | None


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One parameter of one experiment.

    Attributes
    ----------
    name : str
        Name of the parameter.
    default : object
        Its value unless another is given.
    says : str
        What it is, with its unit.
    kind : type
        ``int``, ``float``, ``str`` or ``bool``: of the value, or of each item of a tuple.
    many : bool
        Whether the value is a tuple.
    optional : bool
        Whether the value may be None.
    """

    name: str
    default: object
    says: str
    kind: type
    many: bool
    optional: bool
    about: _About

    def read(self, text: str) -> object:
        """Return the value that a text stands for; items of a tuple have commas between them.

        Raises
        ------
        ArgumentError
            If the text stands for no value of this parameter.
        """
        if self.optional and text.strip().lower() == "none":
            return None
        if self.many:
            return self.valid(tuple(self._item(one.strip()) for one in text.split(",")), text)
        return self.valid(self._item(text.strip()), text)

    def valid(self, value: object, shown: object = None) -> object:
        """Return the value in the parameter's own type.

        Raises
        ------
        ArgumentError
            If it is of another type, empty, or out of bounds.
        """
        shown = value if shown is None else shown
        if value is None and self.optional:
            return None
        if not self.many:
            return self._one(value, shown)
        items = tuple(value) if isinstance(value, list | tuple | range) else ()
        if not items:
            raise self._refused(shown)
        return tuple(self._one(item, shown) for item in items)

    @property
    def expected(self) -> str:
        """What a value has to be, in words."""
        words = _CALLED[self.kind]
        about = self.about
        if about.choices:
            words = "one of " + ", ".join(about.choices)
        if about.least is not None:
            words += f" from {about.least:g}"
        if about.most is not None:
            words += f" to {about.most:g}"
        if self.many:
            words = f"one or more, each {words}, with commas between them"
        return f"{words}, or none" if self.optional else words

    def _item(self, text: str) -> object:
        try:
            if self.kind is bool:
                return _WORDS[text.lower()]
            return self.kind(text)
        except (KeyError, ValueError):
            raise self._refused(text) from None

    def _one(self, value: object, shown: object) -> object:
        value = value.item() if hasattr(value, "item") else value
        if self.kind is float and type(value) is int:
            value = float(value)
        if type(value) is not self.kind or (isinstance(value, float) and not math.isfinite(value)):
            raise self._refused(shown)
        if isinstance(value, int | float) and not self._within(value):
            raise self._refused(shown)
        if self.about.choices and value not in self.about.choices:
            raise self._refused(shown)
        if self.about.check is not None:
            self.about.check(value)
        return value

    def _within(self, value: float) -> bool:
        least, most = self.about.least, self.about.most
        return (least is None or value >= least) and (most is None or value <= most)

    def _refused(self, shown: object) -> ArgumentError:
        return ArgumentError.unexpected(self.name, shown, self.expected)


def parameters_of(experiment: type) -> Mapping[str, Parameter]:
    """Return the parameters that a class declares, by name, in the order of declaration."""
    hints = get_type_hints(experiment)
    found = {}
    for field in dataclasses.fields(experiment):
        if _SAYS not in field.metadata:
            raise TypeError(f"{experiment.__name__}.{field.name} is no parameter(...)")
        about = field.metadata[_SAYS]
        kind, many, optional = _unfolded(hints[field.name])
        found[field.name] = Parameter(
            name=field.name,
            default=field.default,
            says=about.says,
            kind=kind,
            many=many,
            optional=optional,
            about=about,
        )
    return types.MappingProxyType(found)


def _unfolded(hint: Any) -> tuple[type, bool, bool]:
    optional = False
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = (part for part in get_args(hint) if part is not type(None))
        optional = True
    many = get_origin(hint) is tuple
    kind = get_args(hint)[0] if many else hint
    if kind not in _CALLED:
        raise TypeError(f"{hint} is no type of a parameter; expected int, float, str, bool")
    return kind, many, optional
