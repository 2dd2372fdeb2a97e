"""Which engine measures a call: the cheapest, by a model of what each costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from rootdk._lib.errors import ArgumentError
from rootdk.engines import blocked, compiled, fused, linear, reference
from rootdk.engines.call import Call
from rootdk.engines.fill import Filled

SMALL = 2.0**26
"""Multiplications below which time is all overhead, and the order of the engines decides."""


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
    cost : callable
        Takes the same; returns about how many multiplications of a matrix product in
        float32 would take as long.
    run : callable
        Takes the same; returns the states, and a description of what ran.
    """

    name: str
    refusal: Callable[[Call, set[str]], str | None]
    cost: Callable[[Call, set[str]], float]
    run: Callable[[Call, set[str]], Filled]


def _heads(call: Call) -> float:
    return float(call.batch * call.num_heads)


def _scores(call: Call) -> float:
    """Return how many scores of the rows to measure are within causal order and window."""
    first, past = call.reach(call.rows)
    return _heads(call) * float(np.sum(past - first))


def of_linear(call: Call, names: set[str]) -> float:
    """Return the cost of the linear engine: float64 takes twice as long, at a third of its best."""
    ordered = call.causal is not None or call.window != (None, None)
    rows, keys = len(call.rows), call.keys
    passes = rows * (call.head_dim + (256.0 if ordered else 0.0)) + keys * call.head_dim
    return 6.0 * _heads(call) * passes * call.head_dim


def of_blocked(call: Call, names: set[str]) -> float:
    """Return the cost of the blocked engine: a product, and so much again for each score."""
    softmax = bool(names & compiled.SOFTMAX)
    if compiled.fits(call):
        each = 12.0 + 30.0 * softmax + 30.0 * ("score_histogram" in names)
        return _scores(call) * (call.head_dim + each)
    each = 60.0 + 120.0 * softmax + 100.0 * ("score_histogram" in names)
    return _scores(call) * (call.head_dim + each)


def of_fused(call: Call, names: set[str]) -> float:
    """Return the cost of the fused engine: two products a call, one call or two."""
    calls = 1.0 + ("row_squares" in names)
    # On a GPU its calls are one kernel each, and blocks are many.
    quicker = 1.0 if call.query.device.type == "cpu" else 0.1
    return quicker * calls * _scores(call) * (2.0 * call.head_dim + 60.0)


def of_reference(call: Call, names: set[str]) -> float:
    """Return the cost of the reference: what it would take to choose it unasked."""
    return float("inf")


_BY_PREFERENCE = (
    Engine(name="linear", refusal=linear.refusal, cost=of_linear, run=linear.run),
    Engine(name="blocked", refusal=blocked.refusal, cost=of_blocked, run=blocked.run),
    Engine(name="fused", refusal=fused.refusal, cost=of_fused, run=fused.run),
    Engine(name="reference", refusal=reference.refusal, cost=of_reference, run=reference.run),
)

ENGINES: Mapping[str, Engine] = {engine.name: engine for engine in _BY_PREFERENCE}
"""The engines by name, in the order preferred at equal cost."""


def choose(call: Call, names: set[str], wanted: str | None) -> Engine:
    """Return the engine for a call: the wanted one, or the cheapest that can measure it.

    Raises
    ------
    ArgumentError
        If there is no engine of the wanted name, or it cannot measure this; the message
        says why.
    """
    if wanted is None:
        able = (engine for engine in _by_cost(call, names) if not engine.refusal(call, names))
        return next(able)
    if wanted not in ENGINES:
        raise ArgumentError.unexpected("engine", wanted, f"one of {', '.join(ENGINES)}, or None")
    engine = ENGINES[wanted]
    why = engine.refusal(call, names)
    if why is not None:
        raise ArgumentError(f"engine {wanted!r} cannot measure this: {why}")
    return engine


def _by_cost(call: Call, names: set[str]) -> list[Engine]:
    """Return the engines, the cheapest first; a refusal may cost more to find than a cost."""
    eligible = [engine for engine in _BY_PREFERENCE if _may(engine, call)]
    return sorted(eligible, key=lambda engine: max(engine.cost(call, names), SMALL))


def _may(engine: Engine, call: Call) -> bool:
    return engine.name != "fused" or call.library == "torch"
