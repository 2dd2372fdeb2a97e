"""Additive attention beside dot-product attention, with its scale and without."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rootdk.lab._base import Context, Experiment, Method, Records
from rootdk.lab._entries import Floats
from rootdk.lab._parameters import parameter
from rootdk.lab._rows import RowMeans
from rootdk.lab._sketch import Level, Line, Panel, Sketch
from rootdk.lab._table import Table

__all__ = ["AdditiveAgainstDotProduct"]

ADDITIVE, UNSCALED, SCALED = "additive", "dot product", "scaled dot product"
KINDS = (ADDITIVE, UNSCALED, SCALED)
COLORS = {ADDITIVE: 2, UNSCALED: 1, SCALED: 0}

ENOUGH = 0.05
"""Seconds after which one call has been timed often enough."""


@dataclass(frozen=True, kw_only=True)
class AdditiveAgainstDotProduct(Experiment):
    """The remark of the 2017 paper that scaling makes up for what additive attention does not need.

    Additive attention scores v · tanh(W q + U k) (Bahdanau et al. 2015), with as many hidden units
    as head_dim. Queries and keys have entries of size 1; W and U are such that what goes into tanh
    has size 1, and the entries of v have the standard deviation gain/√head_dim.
    """

    name: ClassVar[str] = "additive-against-dot-product"
    question: ClassVar[str] = "Does additive attention need no scale where dot products do?"
    order: ClassVar[int] = 60
    random: ClassVar[tuple[Method, ...]] = ("sample",)
    tiny: ClassVar[Mapping[str, object]] = {"widths": (4, 8), "queries": 8, "keys": 6, "repeats": 1}
    timed: ClassVar[frozenset[str]] = frozenset({"seconds"})
    columns: ClassVar[Mapping[str, str]] = {
        "head_dim": "entries of a query and of a key, and hidden units",
        "attention": "how scores are computed",
        "spread": "standard deviation of the scores",
        "spread_standard_error": "its standard error, over queries",
        "entropy_nats": "entropy of a row in nats, mean over rows",
        "max_weight": "largest weight of a row, mean over rows",
        "seconds": "of wall clock for all scores, the least of the repeats",
    }

    widths: tuple[int, ...] = parameter((4, 16, 64, 256, 1024), "head_dim of each row", least=1)
    queries: int = parameter(128, "queries, sharing the keys", least=2)
    keys: int = parameter(128, "keys", least=2)
    gain: float = parameter(1.0, "standard deviation of v times √head_dim", least=0.0)
    repeats: int = parameter(3, "how often each is timed at least", least=1)

    def sample(self, context: Context) -> Records:
        """Draw queries, keys and weights, and compute all scores."""
        seeds = np.random.SeedSequence(context.seed).spawn(len(self.widths))
        for done, (width, seed) in enumerate(zip(self.widths, seeds, strict=True)):
            context.progress(done, len(self.widths), f"head_dim {width}")
            yield from self._rows(width, np.random.default_rng(seed))

    def _rows(self, width: int, rng: np.random.Generator) -> Records:
        query = rng.standard_normal((self.queries, width))
        key = rng.standard_normal((self.keys, width))
        to_query, to_key = rng.standard_normal((2, width, width)) / math.sqrt(2.0 * width)
        out = self.gain * rng.standard_normal(width) / math.sqrt(width)
        calls: dict[str, Callable[[], Floats]] = {
            ADDITIVE: lambda: additive(query, key, to_query, to_key, out),
            UNSCALED: lambda: query @ key.T,
            SCALED: lambda: (query @ key.T) / math.sqrt(width),
        }
        for name, call in calls.items():
            scores = call()
            (means,) = RowMeans.of([scores], [1.0])
            yield {
                "head_dim": width,
                "attention": name,
                "spread": means.spread.value,
                "spread_standard_error": means.spread.standard_error,
                "entropy_nats": means["entropy_nats"].value,
                "max_weight": means["max_weight"].value,
                "seconds": _fastest(call, self.repeats),
            }

    def answer(self, table: Table) -> str:
        """Say what is left at the largest width."""
        first, last = self.widths[0], self.widths[-1]
        said = []
        for name in KINDS:
            few, many = (next(iter(table.where(attention=name, head_dim=d))) for d in (first, last))
            said.append(
                f"{name} has a spread of {few['spread']:.2g} and {many['spread']:.2g} and an "
                f"entropy of {few['entropy_nats']:.2f} and {many['entropy_nats']:.2f} nats"
            )
        return (
            f"At head_dim {first} and {last}, {'; '.join(said)}, of at most "
            f"{math.log(self.keys):.2f}: bounded units summed with weights of size 1/√head_dim "
            "do not grow with the width, and dot products of unit entries do."
        )

    def sketch(self, table: Table) -> Sketch:
        """Spread, entropy and time against the width."""
        panels = [
            self._panel(table, "spread", "spread of the scores", "standard deviation", 10),
            self._panel(table, "entropy_nats", "entropy of a row", "nats", None),
        ]
        if "seconds" in table:
            title = f"time for {self.queries} × {self.keys} scores"
            panels.append(self._panel(table, "seconds", title, "seconds", 10))
        return Sketch(title=self.question, panels=tuple(panels), across=3)

    def _panel(self, table: Table, column: str, title: str, y_label: str, log: int | None) -> Panel:
        lines = [
            Line(
                label=name,
                x=(chosen := table.where(attention=name))["head_dim"],
                y=tuple(value if value > 0.0 else None for value in chosen[column]),
                color=COLORS[name],
            )
            for name in KINDS
        ]
        uniform = [Level(label="uniform", y=math.log(self.keys))]
        return Panel(
            title=title,
            x_label="head_dim",
            y_label=y_label,
            marks=(*lines, *(uniform if column == "entropy_nats" else ())),
            x_log=2,
            y_log=log,
            y_range=(None, None) if log else (0.0, None),
        )


def additive(query: Floats, key: Floats, to_query: Floats, to_key: Floats, out: Floats) -> Floats:
    """Return v · tanh(W q + U k), ``(queries, keys)``, one query at a time."""
    keys = key @ to_key
    scores: Floats = np.stack([np.tanh(row + keys) @ out for row in query @ to_query])
    return scores


def _fastest(call: Callable[[], Floats], repeats: int) -> float:
    """Return the seconds of the fastest call: what is slower, the machine was busy with."""
    seconds: list[float] = []
    while len(seconds) < repeats or (sum(seconds) < ENOUGH and len(seconds) < 100 * repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)
