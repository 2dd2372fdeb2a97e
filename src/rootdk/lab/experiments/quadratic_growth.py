"""What the full matrix of weights costs, beside an engine that never forms it."""

from __future__ import annotations

import math
import time
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np

from rootdk.engines import measure
from rootdk.lab._base import Context, Experiment, Method, Records
from rootdk.lab._entries import Floats
from rootdk.lab._parameters import parameter
from rootdk.lab._sketch import Line, Mark, Panel, Sketch
from rootdk.lab._table import Table

__all__ = ["QuadraticGrowth"]

T = TypeVar("T")
EPS = float(np.finfo(np.float64).eps)
MIB = 2.0**20
MEASURED = ("spread", "entropy_nats", "max_weight")


@dataclass(frozen=True, kw_only=True)
class QuadraticGrowth(Experiment):
    """Bytes and seconds of the full matrix of weights against tokens, one head in float64.

    Beside it, the blocked engine of ``rootdk.measure`` gives spread, entropy and largest weight
    of the same rows and holds a few of them at a time. Seconds and peak bytes are measured on
    the machine; the peak is what Python and NumPy allocate in the call, inputs left out.
    """

    name: ClassVar[str] = "quadratic-growth"
    question: ClassVar[str] = "What does attention to twice as many tokens cost?"
    order: ClassVar[int] = 50
    tiny: ClassVar[Mapping[str, object]] = {"tokens": (3, 16), "repeats": 1}
    default_seed: ClassVar[int] = 42
    random: ClassVar[tuple[Method, ...]] = ("replay",)
    timed: ClassVar[frozenset[str]] = frozenset(
        {"seconds", "engine_seconds", "peak_bytes", "engine_peak_bytes"}
    )
    columns: ClassVar[Mapping[str, str]] = {
        "tokens": "queries, and keys",
        "output_shape": "tokens and value_dim",
        "scores": "entries of the matrix",
        "weight_bytes": "bytes of the matrix of weights in float64",
        "rows_sum_to_one": "whether every row of weights does, to rounding",
        "spread": "standard deviation of the scores, as the engine has it",
        "engine_agrees": "whether the full matrix has the same spread, to rounding",
        "seconds": "wall-clock time of the full computation, median of the repeats",
        "engine_seconds": "the same of the engine",
        "peak_bytes": "most that the full computation held at once",
        "engine_peak_bytes": "the same of the engine",
    }

    tokens: tuple[int, ...] = parameter((3, 512, 4096), "sequence lengths, in order", least=1)
    head_dim: int = parameter(64, "head_dim and value_dim", least=1)
    repeats: int = parameter(3, "how often each is timed", least=1)

    def replay(self, context: Context) -> Records:
        """Draw queries, keys and values of each length from one generator, and attend."""
        rng = np.random.default_rng(context.seed)
        for done, tokens in enumerate(self.tokens):
            context.progress(done, len(self.tokens), f"{tokens} tokens")
            query, key, value = (rng.normal(size=(tokens, self.head_dim)) for _ in range(3))
            yield self._row(query, key, value)

    def _row(self, query: Floats, key: Floats, value: Floats) -> dict[str, object]:
        def full() -> tuple[Floats, Floats]:
            weights = query @ key.T
            # In place, so that the peak is the matrix itself and not copies of it.
            weights /= math.sqrt(self.head_dim)
            weights -= weights.max(axis=-1, keepdims=True)
            np.exp(weights, out=weights)
            weights /= weights.sum(axis=-1, keepdims=True)
            return weights @ value, weights

        def engine() -> float:
            summary = measure(query, key, quantities=MEASURED, engine="blocked")
            return float(np.asarray(summary["spread"])[0])

        (output, weights), peak = _peak(full)
        spread, engine_peak = _peak(engine)
        tokens = len(query)
        # A sum of n terms of total 1 is off by n·eps at most; so is a mean of squares.
        bound = tokens * EPS
        row = {
            "tokens": tokens,
            "output_shape": output.shape,
            "scores": weights.size,
            "weight_bytes": weights.nbytes,
            "rows_sum_to_one": np.all(np.abs(weights.sum(axis=-1) - 1.0) <= bound),
            "spread": spread,
            "engine_agrees": abs(spread - _spread(query, key)) <= 4.0 * bound * self.head_dim,
        }
        del output, weights  # before more of that size is made
        return {
            **row,
            "seconds": _seconds(full, self.repeats),
            "engine_seconds": _seconds(engine, self.repeats),
            "peak_bytes": peak,
            "engine_peak_bytes": engine_peak,
        }

    def answer(self, table: Table) -> str:
        """Say how the matrix grows."""
        first, last = next(iter(table)), list(table)[-1]
        return (
            f"Four times as much: from {first['tokens']} to {last['tokens']} tokens the matrix of "
            f"weights of one head grows from {_written(first['weight_bytes'])} to "
            f"{_written(last['weight_bytes'])}, with the square of the tokens, while all that "
            "rootdk measures of it is found in blocks that grow with the tokens alone."
        )

    def sketch(self, table: Table) -> Sketch:
        """Bytes, and seconds where they were measured."""
        x = table["tokens"]
        marks: list[Mark] = [
            Line(
                label="matrix of weights",
                x=x,
                y=tuple(size / MIB for size in table["weight_bytes"]),
                color=1,
            )
        ]
        if "engine_peak_bytes" in table:
            peak = tuple(size / MIB for size in table["engine_peak_bytes"])
            marks.append(Line(label="engine, peak", x=x, y=peak, color=0))
        panels = [
            Panel(title="memory of one head", x_label="tokens", y_label="MiB",
                  marks=tuple(marks), x_log=2, y_log=10)
        ]  # fmt: skip
        if "seconds" in table:
            seconds = (
                Line(label="full matrix", x=x, y=table["seconds"], color=1),
                Line(label="engine", x=x, y=table["engine_seconds"], color=0),
            )
            panels.append(
                Panel(title="time of one head", x_label="tokens", y_label="seconds",
                      marks=seconds, x_log=2, y_log=10)
            )  # fmt: skip
        return Sketch(title=self.question, panels=tuple(panels))


def _spread(query: Floats, key: Floats) -> float:
    return float(np.std(query @ key.T / math.sqrt(query.shape[-1])))


def _peak(run: Callable[[], T]) -> tuple[T, int]:
    """Return what a call returns, and the most bytes that were allocated while it ran."""
    started = tracemalloc.is_tracing()
    if not started:
        tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        result = run()
        return result, tracemalloc.get_traced_memory()[1] - before
    finally:
        if not started:
            tracemalloc.stop()


def _seconds(run: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def _written(size: int) -> str:
    for unit, bytes_each in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= bytes_each:
            return f"{size / bytes_each:.4g} {unit}"
    return f"{size} bytes"
