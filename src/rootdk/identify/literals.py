"""NumPy arrays as the shortest expression that a script can hold."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["assigned", "literal"]


def literal(value: Any) -> str:
    """Return an expression for an array or a plain value.

    Examples
    --------
    >>> literal(np.zeros((1, 2), dtype=np.float32)), literal(True)
    ('np.zeros((1, 2), dtype=np.float32)', 'True')
    >>> literal(np.eye(2, dtype=bool)[None])
    'np.array([[[True, False], [False, True]]])'
    """
    if not isinstance(value, np.ndarray):
        return repr(value)
    kind = value.dtype.kind
    dtype = "" if kind == "b" else ", dtype=np.float32" if kind == "f" else ", dtype=np.int32"
    first = value.flat[0] if value.size else 0
    shape = value.shape
    if value.size == 0 or (bool(np.all(value == first)) and value.size > 1):
        if kind == "b":
            return f"np.full({shape}, {bool(first)})"
        if first in (0, 1):
            return f"np.{'zeros' if first == 0 else 'ones'}({shape}{dtype})"
        return f"np.full({shape}, {_number(first)}{dtype})"
    small = _without_repeats(value)
    if small.size < value.size:
        return f"np.broadcast_to({literal(small)}, {shape})"
    if value.size <= _MOST:
        return f"np.array({_nested(value)}{dtype})"
    where = np.flatnonzero(value)
    if len(where) <= _MOST:
        # Long and mostly zero: only what is not is written.
        pairs = ", ".join(f"({i}, {_number(value.flat[i])})" for i in where)
        return f"np.array([dict([{pairs}]).get(i, 0) for i in range({value.size})]{dtype}).reshape({shape})"  # noqa: E501
    return f"np.array({_nested(value.ravel())}{dtype}).reshape({shape})"


def assigned(name: str, value: Any) -> tuple[str, ...]:
    """Return lines that make an array of that name, the few numbers that are not 0 one by one.

    Examples
    --------
    >>> a = np.zeros((2, 3, 4), dtype=np.float32)
    >>> a[:, 1, 0] = 8.0
    >>> assigned("key", a)
    ('key = np.zeros((2, 3, 4), dtype=np.float32)', 'key[:, 1, 0] = 8')
    """
    small = _without_repeats(value)
    where = np.argwhere(small)
    if value.dtype.kind != "f" or small.size == 1 or not 0 < len(where) <= _FEW:
        return (f"{name} = {literal(value)}",)
    whole = tuple(small.shape[axis] == 1 < value.shape[axis] for axis in range(value.ndim))
    lines = [f"{name} = np.zeros({value.shape}, dtype=np.float32)"]
    for place in where:
        index = ", ".join(":" if all_ else str(i) for i, all_ in zip(place, whole, strict=True))
        lines.append(f"{name}[{index}] = {_number(small[tuple(place)])}")
    return tuple(lines)


_MOST = 64
_FEW = 12


def _without_repeats(value: Any) -> Any:
    """Return the array with every axis shortened to 1 along which it does not change."""
    for axis in range(value.ndim):
        first = value.take([0], axis)
        if value.shape[axis] > 1 and bool(np.all(value == first)):
            value = first
    return value


def _nested(value: Any) -> str:
    if value.ndim == 0:
        return _number(value.item())
    return "[" + ", ".join(_nested(part) for part in value) + "]"


def _number(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    number = float(value)
    if np.isnan(number):
        return "np.nan"
    if np.isinf(number):
        return "np.inf" if number > 0 else "-np.inf"
    return str(int(number)) if number.is_integer() and abs(number) < 1e9 else f"{number:.9g}"
