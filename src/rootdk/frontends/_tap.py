"""A tap on what is measured: the arrays of each attention call, while they are alive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

from rootdk.stats import Summary

__all__ = ["MOST_ROWS", "Kept", "Measured", "offer", "some_rows", "tapped", "wanted"]

MOST_ROWS = 32
"""How many query rows of the weights, or of the output, are kept."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Some query rows of what the model made: (batch, heads, rows, keys | value_dim)."""

    kind: Literal["weights", "output"]
    array: Any
    rows: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One attention call as it was measured, and the summary that this gave.

    Arrays are those of ``rootdk.measure``: the constant factors stand in ``scale``.
    """

    summary: Summary
    query: Any
    key: Any
    value: Any | None
    scale: float
    mask: Any | None
    bias: Any | None
    softcap: float | None
    causal: Any | None
    inputs: Any | None
    score_dtype: str
    kept: Kept | None


_TAP: ContextVar[Callable[[Measured], None] | None] = ContextVar("rootdk_tap", default=None)


@contextmanager
def tapped(listener: Callable[[Measured], None]) -> Iterator[None]:
    """Hand every call that is measured within the block to ``listener``."""
    token = _TAP.set(listener)
    try:
        yield
    finally:
        _TAP.reset(token)


def wanted() -> bool:
    """Whether somebody listens, so that it is worth keeping rows."""
    return _TAP.get() is not None


def offer(measured: Measured) -> None:
    """Hand a measured call to whoever listens."""
    listener = _TAP.get()
    if listener is not None:
        listener(measured)


def some_rows(queries: int) -> tuple[int, ...]:
    """Return at most ``MOST_ROWS`` positions, evenly spread, the first and the last among them.

    Examples
    --------
    >>> some_rows(3)
    (0, 1, 2)
    >>> len(some_rows(1000)), some_rows(1000)[-1]
    (32, 999)
    """
    if queries <= MOST_ROWS:
        return tuple(range(queries))
    return tuple(round(i * (queries - 1) / (MOST_ROWS - 1)) for i in range(MOST_ROWS))
