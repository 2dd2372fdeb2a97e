"""Arithmetic that a user writes in a setting, evaluated without ``eval``.

An expression holds numbers, names that the caller gives a value, ``+ - * / **``,
unary signs, parentheses, ``pi`` and a few functions. Everything is a float, so no
expression can grow an integer without bound.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping

from rootdk._lib.errors import ArgumentError

__all__ = ["FUNCTIONS", "evaluate"]

MAX_CHARACTERS = 200
MAX_EXPONENT = 64.0

FUNCTIONS: Mapping[str, Callable[..., float]] = {
    "sqrt": math.sqrt,
    "log": math.log,
    "log2": math.log2,
    "min": min,
    "max": max,
}
_ARGUMENTS = {"sqrt": (1, 1), "log": (1, 1), "log2": (1, 1), "min": (2, 8), "max": (2, 8)}
_CONSTANTS: Mapping[str, float] = {"pi": math.pi}
_BINARY: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[float], float]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}


def evaluate(expression: str, facts: Mapping[str, float]) -> float:
    """Return the value of an arithmetic expression over named facts.

    Parameters
    ----------
    expression : str
        At most 200 characters, such as ``"1/sqrt(hidden)"``.
    facts : mapping
        What the names in the expression mean. ``pi`` is always known.

    Returns
    -------
    float
        A finite number.

    Raises
    ------
    ArgumentError
        If the expression is no arithmetic, uses another name, or has no finite value.
        The message shows the expression, the fact, and the names that are allowed.

    Examples
    --------
    >>> evaluate("2 / sqrt(head_dim)", {"head_dim": 64})
    0.25
    >>> evaluate("exec(1)", {})
    Traceback (most recent call last):
    ...
    rootdk._lib.errors.ArgumentError: expression 'exec(1)': exec is no function here; ...
    """
    try:
        if len(expression) > MAX_CHARACTERS:
            raise _Unreadable(f"it has {len(expression)} characters; at most {MAX_CHARACTERS}")
        value = _value(_parse(expression), {**_CONSTANTS, **facts})
        if not math.isfinite(value):
            raise _Unreadable(f"its value is {value}")
    except _Unreadable as error:
        shown = expression if len(expression) <= MAX_CHARACTERS else expression[:40] + "…"
        raise ArgumentError(
            f"expression {shown!r}: {error}; allowed are {_allowed(facts)}"
        ) from None
    return value


class _Unreadable(Exception):
    """The bare fact; the entry point adds the expression and what is allowed."""


def _allowed(facts: Mapping[str, float]) -> str:
    names = ", ".join(sorted({**_CONSTANTS, **facts}))
    functions = ", ".join(sorted(FUNCTIONS))
    return f"the names {names}, the functions {functions}, and + - * / ** ( )"


def _parse(expression: str) -> ast.expr:
    try:
        return ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _Unreadable("it cannot be read") from None


def _value(node: ast.expr, names: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _number(number)
        case ast.Name(id=name):
            return _named(name, names)
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _UNARY[type(op)](_value(operand, names))
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_value(left, names), _value(right, names))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _applied(_BINARY[type(op)], _value(left, names), _value(right, names))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            return _called(name, args, names)
    raise _Unreadable(f"{ast.unparse(node)[:40]} is no arithmetic")


def _number(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        raise _Unreadable("a number in it is too large") from None


def _named(name: str, names: Mapping[str, float]) -> float:
    if name not in names:
        raise _Unreadable(f"{name} is not known here")
    return float(names[name])


def _power(base: float, exponent: float) -> float:
    if abs(exponent) > MAX_EXPONENT:
        raise _Unreadable(f"the exponent {exponent:g} is beyond ±{MAX_EXPONENT:g}")
    if base < 0 and exponent != int(exponent):
        raise _Unreadable(f"{base:g} to the power {exponent:g} is not real")
    return _applied(operator.pow, base, exponent)


def _called(name: str, args: list[ast.expr], names: Mapping[str, float]) -> float:
    if name not in FUNCTIONS:
        raise _Unreadable(f"{name} is no function here")
    fewest, most = _ARGUMENTS[name]
    if not fewest <= len(args) <= most:
        raise _Unreadable(f"{name} takes {fewest} to {most} values, not {len(args)}")
    return _applied(FUNCTIONS[name], *(_value(arg, names) for arg in args))


def _applied(function: Callable[..., float], *values: float) -> float:
    try:
        return float(function(*values))
    except ZeroDivisionError:
        raise _Unreadable("it divides by zero") from None
    except OverflowError:
        raise _Unreadable("its value is too large") from None
    except ValueError:
        shown = ", ".join(f"{value:g}" for value in values)
        raise _Unreadable(f"{function.__name__}({shown}) has no real value") from None
