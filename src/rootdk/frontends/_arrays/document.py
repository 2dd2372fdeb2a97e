"""The JSON document beside the arrays: what a capture knew of each site and numbers cannot say.

It is read as data: every field must have the type that its record declares, and a line of
source is shown only if the document holds the same text, so that a file made by a stranger
cannot show lines of files on the reader's machine.
"""

from __future__ import annotations

import dataclasses
import json
import linecache
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from rootdk._lib.errors import TargetError
from rootdk.records import AttentionSite, Environment, Frame, Unhandled

__all__ = ["FORMAT", "Document", "decode", "encode"]

FORMAT = 1
_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_Record = TypeVar("_Record")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Document:
    """What a trace showed besides arrays; ``state`` as in a diagnosis."""

    format: int = FORMAT
    target: str = ""
    state: Literal["init", "trained", "unknown"] = "unknown"
    state_reason: str = ""
    operations: int = 0
    sites: tuple[AttentionSite, ...] = ()
    unhandled: tuple[Unhandled, ...] = ()
    remarks: tuple[str, ...] = ()
    environment: Environment = dataclasses.field(default_factory=Environment)


def encode(document: Document) -> str:
    """Return the document as JSON; numbers that are not finite become words."""
    return json.dumps(_plain(document), ensure_ascii=False, allow_nan=False)


def decode(text: str, where: str) -> Document:
    """Return the document that a text holds.

    Raises
    ------
    TargetError
        If it is not JSON, of another format, or holds a field that is unknown or of another
        type; the message names the place.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise TargetError(f"{where} cannot be read; expected JSON") from None
    if isinstance(value, dict) and value.get("format", FORMAT) != FORMAT:
        raise TargetError.unexpected(f"{where}.format", value["format"], str(FORMAT))
    return _record(Document, value, where)


def _plain(value: Any) -> Any:
    if isinstance(value, Frame):
        shown = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return {**shown, "text": value.text}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _record(kind: type[_Record], value: Any, where: str) -> _Record:
    if not isinstance(value, dict):
        raise TargetError(f"{where} is a {type(value).__name__}; expected an object")
    if kind is Frame:
        return _frame(value, where)  # type: ignore[return-value]
    hints = typing.get_type_hints(kind)
    names = {f.name for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(set(value) - names)
    if unknown:
        raise TargetError(f"{where} has {', '.join(unknown[:3])}; expected only its own fields")
    given = {name: _value(hints[name], value[name], f"{where}.{name}") for name in value}
    try:
        return kind(**given)
    except TypeError as error:
        raise TargetError(f"{where} lacks a field: {error}") from None


def _frame(value: dict[str, Any], where: str) -> Frame:
    """A line of a file that cannot be read here as it was there stands in angle brackets."""
    file = _value(str, value.get("file"), f"{where}.file")
    line = _value(int, value.get("line"), f"{where}.line")
    function = _value(str, value.get("function"), f"{where}.function")
    text = _value(str, value.get("text", ""), f"{where}.text")
    known = file.endswith(".py") and text and linecache.getline(file, line).strip() == text
    if not known and not (file.startswith("<") and file.endswith(">")):
        file = f"<{file}>"
    return Frame(file=file, line=line, function=function)


def _value(hint: Any, value: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _one_of(arguments, value, where)
    if origin is Literal:
        if value in arguments:
            return value
        raise TargetError.unexpected(where, value, f"one of {', '.join(map(str, arguments))}")
    if origin is tuple:
        return _tuple(arguments, value, where)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            raise TargetError.unexpected(where, value, "an object")
        return {str(k): _value(arguments[1], v, f"{where}.{k}") for k, v in value.items()}
    if dataclasses.is_dataclass(hint):
        return _record(hint, value, where)  # type: ignore[arg-type]
    return _scalar(hint, value, where)


def _one_of(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in kinds:
        return None
    (kind,) = (k for k in kinds if k is not type(None))
    return _value(kind, value, where)


def _tuple(kinds: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise TargetError.unexpected(where, value, "a list")
    if kinds[-1:] == (Ellipsis,):
        kinds = (kinds[0],) * len(value)
    if len(kinds) != len(value):
        raise TargetError.unexpected(where, value, f"a list of {len(kinds)}")
    pairs = zip(kinds, value, strict=True)
    return tuple(_value(kind, item, f"{where}[{i}]") for i, (kind, item) in enumerate(pairs))


def _scalar(kind: Any, value: Any, where: str) -> Any:
    if kind is float and isinstance(value, str) and value in _WORDS:
        return _WORDS[value]
    wanted = (int, float) if kind is float else kind
    if isinstance(value, wanted) and (kind is bool or not isinstance(value, bool)):
        return float(value) if kind is float else value
    raise TargetError.unexpected(where, value, f"a {kind.__name__}")
