"""A function of query, key and value whose signature says what else it takes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from rootdk._lib.errors import ArgumentError, TargetError
from rootdk._lib.layouts import parse_layout
from rootdk.identify.adapted import Adapted
from rootdk.identify.adapters._base import Adapter, Wanted, described, importable, source_of
from rootdk.identify.libraries import Library, libraries, library_named
from rootdk.identify.vocabulary import MEANINGS, OPERANDS, Word, meaning_of, operand_of, word

__all__ = ["Plain"]

_SIZES = ("num_heads", "num_kv_heads", "head_dim", "hidden")
_SWITCHES = {"causal": False, "training": False, "dropout": 0.0}
"""Meanings that are switched off in the plain call when a default switches them on."""


class Plain(Adapter):
    """Reads the signature; asked last."""

    name = "plain"
    order = 100

    def accepts(self, function: Any) -> bool:
        """Whether it can be called at all."""
        return callable(function)

    def adapt(self, function: Any, wanted: Wanted) -> Adapted:
        """Return the function with every argument that has a known name bound to its meaning.

        Raises
        ------
        TargetError
            If it takes fewer than three arrays.
        ArgumentError
            If ``arguments`` names what is not there, or a required argument has no meaning.
        """
        parameters = self.parameters(function)
        given = dict(wanted.arguments)
        choice = _library_choice(given)
        operands = _operands(function, parameters, given)
        words, base, unknown, on = _bound(parameters, operands, given, described(function, wanted))
        imports, expression = importable(function)
        return Adapted(
            name=described(function, wanted),
            call=_caller(function, parameters, operands),
            libraries=(choice,) if choice else tuple(_likely(function, parameters)),
            layout=parse_layout(wanted.layout or "bhsd"),
            words=words,
            base=base,
            source=source_of(function),
            imports=imports,
            expression=expression,
            call_text=_call_text(parameters, operands),
            by_default=on,
            unknown=unknown,
        )


def _library_choice(given: dict[str, Any]) -> Library | None:
    chosen = None
    names = {one.name for one in libraries()}
    for own in list(given):
        if operand_of(own) and isinstance(given[own], str) and given[own] in names:
            chosen = library_named(given.pop(own))
    return chosen


def _operands(
    function: Any, parameters: Mapping[str, inspect.Parameter], given: dict[str, Any]
) -> dict[str, str]:
    """Return the parameter's name for each of query, key and value."""
    positional = [
        p.name
        for p in parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    found: dict[str, str] = {}
    for own, meaning in list(given.items()):
        if isinstance(meaning, str) and meaning in OPERANDS:
            found[meaning] = own
            del given[own]
    for name in parameters:
        operand = operand_of(name)
        if operand is not None and operand not in found and name not in found.values():
            found[operand] = name
    open_ended = any(p.kind is p.VAR_POSITIONAL for p in parameters.values())
    if len(found) < 3 and (not parameters or open_ended or len(positional) >= 3):
        # Without names to go by, the first three are taken in the usual order.
        free = [name for name in positional if name not in found.values()]
        for operand in OPERANDS:
            if operand not in found:
                found[operand] = free.pop(0) if free else ""
    if len(found) < 3:
        name = getattr(function, "__name__", type(function).__name__)
        raise TargetError(
            f"{name} takes {', '.join(parameters) or 'no arguments'}; expected query, key and "
            "value (arguments={'name': 'query', ...} says which are which)"
        )
    return found


def _bound(
    parameters: Mapping[str, inspect.Parameter],
    operands: Mapping[str, str],
    given: dict[str, Any],
    name: str,
) -> tuple[dict[str, Word], dict[str, Any], tuple[str, ...], tuple[str, ...]]:
    """Return words by meaning, the plain call's arguments, unknown ones, and what is on."""
    words: dict[str, Word] = {}
    base: dict[str, Any] = {}
    unknown: list[str] = []
    on: list[str] = []
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for own, meaning in given.items():
        if own not in parameters and not open_ended:
            raise ArgumentError(
                f"arguments names {own!r}, which {name} does not take; expected one of "
                f"{', '.join(parameters)}"
            )
        if isinstance(meaning, tuple) and len(meaning) == 2 and meaning[0] == "fixed":
            base[own] = meaning[1]
        elif isinstance(meaning, str) and meaning in MEANINGS:
            found = word(own, meaning)
            words[found.meaning] = found
        else:
            raise ArgumentError.unexpected(
                f"arguments[{own!r}]", meaning, f"('fixed', value), or one of {', '.join(MEANINGS)}"
            )
    taken = {*operands.values(), *base, *(w.own for w in words.values())}
    for parameter in parameters.values():
        required = parameter.default is parameter.empty
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        if parameter.name not in taken:
            meant = meaning_of(parameter.name)
            if meant is not None and meant.meaning not in words:
                words[meant.meaning] = meant
            elif parameter.name not in operands.values():
                if required and meant is None:
                    raise ArgumentError(
                        f"{name} requires {parameter.name!r}, which has no known meaning; say "
                        f"arguments={{{parameter.name!r}: one of {', '.join(MEANINGS)}}}, or "
                        f"{{{parameter.name!r}: ('fixed', value)}}"
                    )
                unknown.append(parameter.name)
        own_word = next((w for w in words.values() if w.own == parameter.name), None)
        if own_word is None:
            continue
        if required or _counts_heads(own_word, parameter.default):
            base[parameter.name] = own_word
        elif _is_on(own_word, parameter.default):
            base[parameter.name] = own_word
            on.append(own_word.meaning)
    for meaning in _SIZES:
        words.pop(meaning, None)
    return words, base, tuple(unknown), tuple(on)


def _counts_heads(own: Word, default: Any) -> bool:
    """Whether a default says how many heads there are: as many as it is called with."""
    return own.meaning in ("num_heads", "num_kv_heads") and type(default) is int


def _is_on(own: Word, default: Any) -> bool:
    """Whether a default switches something on that the plain call is to be without."""
    if own.meaning == "training":
        return bool(default) != (own.form == "inverted") and default is not None
    if own.meaning == "causal":
        return bool(default)
    return own.meaning == "dropout" and isinstance(default, int | float) and default > 0


def _caller(
    function: Any, parameters: Mapping[str, inspect.Parameter], operands: Mapping[str, str]
) -> Any:
    first = list(parameters)[:3]
    if not parameters or first == [operands[o] for o in OPERANDS] or "" in operands.values():
        return lambda query, key, value, own: function(query, key, value, **own)

    def by_name(query: Any, key: Any, value: Any, own: dict[str, Any]) -> Any:
        arrays = {operands["query"]: query, operands["key"]: key, operands["value"]: value}
        leading = [
            p.name for p in parameters.values() if p.kind is p.POSITIONAL_ONLY and p.name in arrays
        ]
        head = [arrays.pop(name) for name in leading]
        return function(*head, **arrays, **own)

    return by_name


def _call_text(parameters: Mapping[str, inspect.Parameter], operands: Mapping[str, str]) -> str:
    if not parameters or [*parameters][:3] == [operands[o] for o in OPERANDS]:
        return "function(query_, key_, value_, **arguments)"
    if "" in operands.values():
        return "function(query_, key_, value_, **arguments)"
    pairs = ", ".join(f"{operands[o]}={o}_" for o in OPERANDS)
    return f"function({pairs}, **arguments)"


def _likely(function: Any, parameters: Mapping[str, inspect.Parameter]) -> Iterator[Library]:
    """Yield the libraries to try: those that the function speaks of, or all."""
    every = [one for one in libraries() if one.is_installed()]
    hinted = [one for one in every if one.name in _spoken_of(function, parameters)]
    yield from hinted
    yield from (one for one in every if one not in hinted)


def _spoken_of(function: Any, parameters: Mapping[str, inspect.Parameter]) -> set[str]:
    """Return the packages that annotations, the code's global names and the module name."""
    words: set[str] = set()
    for parameter in parameters.values():
        if operand_of(parameter.name) and parameter.annotation is not parameter.empty:
            text = str(parameter.annotation).replace("ndarray", "numpy").lower()
            words |= {one.name for one in libraries() if one.name in text}
            words |= {"torch"} if text.strip("'\"") == "tensor" else set()
    if words:
        return words
    inner = inspect.unwrap(function)
    code = getattr(getattr(inner, "forward", inner), "__code__", None)
    spaces = getattr(getattr(inner, "forward", inner), "__globals__", {})
    for name in code.co_names if code is not None else ():
        module = spaces.get(name)
        owner = getattr(module, "__name__", "") if inspect.ismodule(module) else ""
        owner = owner or getattr(module, "__module__", "") or ""
        words.add(owner.partition(".")[0])
    words |= {base.__module__.partition(".")[0] for base in type(inner).__mro__}
    home = (getattr(function, "__module__", "") or "").partition(".")[0]
    return words | {home}
