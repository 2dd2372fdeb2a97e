"""Which engine measures a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rootdk._lib.errors import ArgumentError
from rootdk.engines import blocked, linear, reference
from rootdk.engines.call import Call
from rootdk.engines.fill import Filled


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A way to compute statistics of scores and rows.

    Attributes
    ----------
    name : str
        What the user calls it.
    refusal : callable
        Takes a call and the names of statistics; returns why the engine cannot measure
        them, or None if it can.
    run : callable
        Takes the same; returns the states, and a description of what ran.
    """

    name: str
    refusal: Callable[[Call, set[str]], str | None]
    run: Callable[[Call, set[str]], Filled]


_BY_PREFERENCE = (
    Engine(name="linear", refusal=linear.refusal, run=linear.run),
    Engine(name="blocked", refusal=blocked.refusal, run=blocked.run),
    Engine(name="reference", refusal=reference.refusal, run=reference.run),
)

ENGINES: Mapping[str, Engine] = {engine.name: engine for engine in _BY_PREFERENCE}
"""The engines by name, the quickest first."""


def choose(call: Call, names: set[str], wanted: str | None) -> Engine:
    """Return the engine for a call: the wanted one, or the quickest that can measure it.

    Raises
    ------
    ArgumentError
        If there is no engine of the wanted name, or it cannot measure this; the message
        says why.
    """
    if wanted is None:
        return next(engine for engine in _BY_PREFERENCE if engine.refusal(call, names) is None)
    if wanted not in ENGINES:
        raise ArgumentError.unexpected("engine", wanted, f"one of {', '.join(ENGINES)}, or None")
    engine = ENGINES[wanted]
    why = engine.refusal(call, names)
    if why is not None:
        raise ArgumentError(f"engine {wanted!r} cannot measure this: {why}")
    return engine
