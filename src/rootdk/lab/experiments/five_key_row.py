"""A row at a width that models use: random entries, five keys."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rootdk.lab._base import Context, Experiment, Method, Records
from rootdk.lab._follow import follow
from rootdk.lab._parameters import parameter
from rootdk.lab._sketch import Bars, Panel, Sketch
from rootdk.lab._table import Table

__all__ = ["FiveKeyRow"]

NEXT_TO_NOTHING = 1e-3
"""Of the largest entry of a Jacobian, which can be 1/4."""


@dataclass(frozen=True, kw_only=True)
class FiveKeyRow(Experiment):
    """Normal entries at head_dim 512: a single key takes all, unless the scores are scaled."""

    name: ClassVar[str] = "five-key-row"
    question: ClassVar[str] = "What does softmax leave of a row of random scores?"
    order: ClassVar[int] = 12
    tiny: ClassVar[Mapping[str, object]] = {"head_dim": 8}
    random: ClassVar[tuple[Method, ...]] = ("replay",)
    columns: ClassVar[Mapping[str, str]] = {
        "key": "which key, from 1",
        "raw_scores": "query · key",
        "scaled_scores": "the same over √head_dim",
        "softmax_raw": "weight from the raw score",
        "softmax_scaled": "weight from the scaled score",
        "largest_jacobian_entry_raw": "w_max(1 − w_max) of the raw row",
        "largest_jacobian_entry_scaled": "the same of the scaled row",
    }

    head_dim: int = parameter(512, "entries of the query and of each key", least=1)
    keys: int = parameter(5, "number of keys", least=1)

    def replay(self, context: Context) -> Records:
        """Draw the query, then the keys, and follow the row."""
        rng = np.random.default_rng(context.seed)
        query = rng.standard_normal(self.head_dim)
        # One product after another, and not a matrix product: how a BLAS adds is its own affair.
        scores = np.sum(rng.standard_normal((self.keys, self.head_dim)) * query, axis=-1)
        raw, scaled = follow(scores), follow(scores / math.sqrt(self.head_dim))
        for place in range(self.keys):
            yield {
                "key": place + 1,
                "raw_scores": raw.scores[place],
                "scaled_scores": scaled.scores[place],
                "softmax_raw": raw.weights[place],
                "softmax_scaled": scaled.weights[place],
                "largest_jacobian_entry_raw": raw.largest_entry,
                "largest_jacobian_entry_scaled": scaled.largest_entry,
            }

    def answer(self, table: Table) -> str:
        """Say what is left of the gradient."""
        row = next(iter(table))
        entry = row["largest_jacobian_entry_raw"]
        said = ": next to no gradient passes" if entry < NEXT_TO_NOTHING else ""
        return (
            f"Raw, the largest weight is {max(table['softmax_raw']):.4f} and the largest Jacobian "
            f"entry {entry:.2g}{said}; over √{self.head_dim} they are "
            f"{max(table['softmax_scaled']):.3f} and {row['largest_jacobian_entry_scaled']:.4f}."
        )

    def sketch(self, table: Table) -> Sketch:
        """Scores, then weights."""
        ticks = tuple(str(key) for key in table["key"])
        scores = (
            Bars.labelled(table["raw_scores"], label="raw", digits=1, color=1),
            Bars.labelled(table["scaled_scores"], label="scaled", digits=1, color=0),
        )
        weights = (
            Bars.labelled(table["softmax_raw"], label="raw", digits=3, color=1),
            Bars.labelled(table["softmax_scaled"], label="scaled", digits=3, color=0),
        )
        return Sketch(
            title=self.question,
            panels=(
                Panel(title="scores", x_label="key", y_label="score", ticks=ticks, marks=scores),
                Panel(
                    title="weights after softmax",
                    x_label="key",
                    y_label="weight",
                    ticks=ticks,
                    marks=weights,
                    y_range=(0.0, 1.12),
                ),
            ),
        )
