"""Which engine measures a call: the cheapest, by a model of what each costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from rootdk._lib.arrays import float_info
from rootdk._lib.errors import ArgumentError
from rootdk.engines import blocked, compiled, flexkernel, fused, linear, plain, ragged, reference
from rootdk.engines.added import is_masked, is_spelt_out
from rootdk.engines.call import Call, UnfitError
from rootdk.engines.entries import SOURCES
from rootdk.engines.fill import Filled
from rootdk.engines.hiding import is_padding
from rootdk.engines.intervals import TOGETHER
from rootdk.engines.rownumbers import SOFTMAX

SMALL = 2.0**26
"""Multiplications, about a millisecond, below which the order of the engines decides.

Time is all overhead there, and the fused engine would save half of it for digits lost.
"""


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
    measures : set of str or None
        The only statistics that it knows; None if it knows all.
    """

    name: str
    refusal: Callable[[Call, set[str]], str | None]
    cost: Callable[[Call, set[str]], float]
    run: Callable[[Call, set[str]], Filled]
    measures: Set[str] | None = None


def _heads(call: Call) -> float:
    return float(call.batch * call.num_heads)


def _scores(call: Call) -> float:
    """Return how many scores of the rows to measure are within causal order and window."""
    first, past = call.reach(call.rows)
    return _heads(call) * float(np.sum(past - first))


def of_linear(call: Call, names: set[str]) -> float:
    """Return the cost of the linear engine: narrow products, and twice where keys differ."""
    ordered = call.ordered or (call.mask is not None and call.mask.shape[2] > 1)
    each = call.head_dim * (2.0 if ordered else 1.0) + 64.0
    cost = 2.0 * _heads(call) * (len(call.rows) + call.keys) * call.head_dim * each
    if ordered:
        cost += 0.25 * SMALL * _steps(call)
    if call.mask is None:
        return cost
    return cost + 8.0 * float(np.prod([float(size) for size in call.mask.shape]))


def _steps(call: Call) -> float:
    """Return how many chunks of rows the linear engine takes one by one: none in plain order."""
    sampled = len(call.rows) < call.queries
    if not sampled and call.window == (None, None) and call.segments is None:
        return 0.0
    return min(len(call.rows), call.keys / ragged.CHUNK) * max(_heads(call) / TOGETHER, 1.0)


def of_blocked(call: Call, names: set[str]) -> float:
    """Return the cost of the blocked engine: a look at entries, then a product and passes."""
    softmax, histogram = bool(names & SOFTMAX), "score_histogram" in names
    entries = _heads(call) * (len(call.rows) + call.keys) * call.head_dim
    if compiled.fits(call):
        each = call.head_dim + 12.0 + 30.0 * softmax + 30.0 * histogram
        return 128.0 * entries + _scores(call) * each
    # What order hides from all rows of a block costs nothing, of some half of it; small calls
    # are one block.
    rows = float(len(call.rows))
    of_block = min(rows, plain.FLAT_TILE / max(call.keys, 1), plain.ORDERED)
    ragged = of_block * call.queries / max(rows, 1.0) / 2.0
    scores = min(_heads(call) * rows * call.keys, _scores(call) + _heads(call) * rows * ragged)
    wide = max(float_info(call.query).bits, float_info(call.key).bits) > 32
    each = call.head_dim + 60.0 + 60.0 * softmax + 50.0 * histogram
    each += 40.0 * (call.mask is not None and not is_padding(call))  # taken off at each step
    return 0.75 * SMALL + 128.0 * entries + scores * each * (2.0 if wide else 1.0)


def of_fused(call: Call, names: set[str]) -> float:
    """Return the cost of the fused engine: a look at entries, then two products a kernel call."""
    calls = 1.0 + ("row_squares" in names)
    # On a GPU its calls are one kernel each, and blocks are many.
    quicker = 1.0 if call.query.device.type == "cpu" else 0.1
    # What a mask hides, a kernel computes all the same.
    scores = float(call.scores) if is_spelt_out(call) else _scores(call)
    if call.ordered:  # the kernel takes keys by the half thousand
        scores = min(scores + 256.0 * _heads(call) * len(call.rows), float(call.scores))
    each = 2.0 * call.head_dim + 60.0 + 100.0 * is_masked(call)
    entries = 160.0 * _heads(call) * (len(call.rows) + call.keys) * call.head_dim
    largest, beside = names & fused.LARGEST, 0.0
    if largest and flexkernel.is_available(call):
        calls += "extremes" in largest
        beside = flexkernel.compiling(call)
    elif largest:
        beside = of_blocked(call, largest)
    return quicker * (entries + calls * scores * each) + beside


def of_reference(call: Call, names: set[str]) -> float:
    """Return the cost of the reference: what it would take to choose it unasked."""
    return float("inf")


_BY_PREFERENCE = (
    Engine(
        name="linear",
        refusal=linear.refusal,
        cost=of_linear,
        run=linear.run,
        measures={*linear.MEASURED, *SOURCES},
    ),
    Engine(name="blocked", refusal=blocked.refusal, cost=of_blocked, run=blocked.run),
    Engine(
        name="fused",
        refusal=fused.refusal,
        cost=of_fused,
        run=fused.run,
        measures={*fused.MEASURED, *fused.LARGEST, *SOURCES},
    ),
    Engine(name="reference", refusal=reference.refusal, cost=of_reference, run=reference.run),
)

ENGINES: Mapping[str, Engine] = {engine.name: engine for engine in _BY_PREFERENCE}
"""The engines by name, in the order preferred at equal cost."""


def run(call: Call, names: set[str], wanted: str | None) -> Filled:
    """Measure a call: by the wanted engine, or the cheapest that can.

    Raises
    ------
    ArgumentError
        If there is no engine of the wanted name, or it cannot measure this; the message
        says why.
    """
    if wanted is None:
        for engine in _by_cost(call, names):
            # What an engine finds on the way, another has to bear.
            with suppress(UnfitError):
                if engine.refusal(call, names) is None:
                    _count_missed(engine, call, names)
                    return engine.run(call, names)
    if wanted is None or wanted not in ENGINES:
        raise ArgumentError.unexpected("engine", wanted, f"one of {', '.join(ENGINES)}, or None")
    engine = ENGINES[wanted]
    try:
        why = engine.refusal(call, names)
        if why is None:
            return engine.run(call, names)
    except UnfitError as unfit:
        why = str(unfit)
    raise ArgumentError(f"engine {wanted!r} cannot measure this: {why}")


def _count_missed(engine: Engine, call: Call, names: set[str]) -> None:
    """Count what another engine measures for want of a compiled kernel."""
    if engine.name == "blocked" and names & fused.LARGEST and flexkernel.is_available(call):
        flexkernel.count_missed(call, engine.cost(call, names))


def _by_cost(call: Call, names: set[str]) -> list[Engine]:
    """Return the engines, the cheapest first; a refusal may cost more to find than a cost."""
    eligible = [engine for engine in _BY_PREFERENCE if _may(engine, call, names)]
    if len(eligible) == 2:  # the last is the reference
        return eligible
    return sorted(eligible, key=lambda engine: max(engine.cost(call, names), SMALL))


def _may(engine: Engine, call: Call, names: set[str]) -> bool:
    if engine.measures is not None and not names <= engine.measures:
        return False
    if engine.name != "fused":
        return True
    # What a kernel does not give costs as much alone as with all else.
    return call.library == "torch" and (not names & fused.LARGEST or flexkernel.is_available(call))
