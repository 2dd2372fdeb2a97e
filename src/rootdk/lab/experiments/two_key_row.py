"""Two keys, where softmax is a logistic function of one difference."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rootdk._lib.errors import ArgumentError
from rootdk.lab._base import Context, Experiment, Records
from rootdk.lab._follow import follow, keys_of
from rootdk.lab._parameters import parameter
from rootdk.lab._sketch import Bars, Panel, Sketch
from rootdk.lab._table import Table

__all__ = ["TwoKeyRow"]


@dataclass(frozen=True, kw_only=True)
class TwoKeyRow(Experiment):
    """Raw scores, the same over √head_dim, and a pair that is far apart."""

    name: ClassVar[str] = "two-key-row"
    question: ClassVar[str] = "How does the gap between two scores decide weights and gradient?"
    order: ClassVar[int] = 11
    columns: ClassVar[Mapping[str, str]] = {
        "case": "raw, scaled, or far apart",
        "scores": "the two scores",
        "weights": "their weights after softmax",
        "largest_jacobian_entry": "w_max(1 − w_max)",
    }

    query: tuple[float, ...] = parameter((2.0, 3.0, 4.0, 1.0), "entries of the query")
    keys: tuple[float, ...] = parameter(
        (1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0), "entries of the keys, one after another"
    )
    far: tuple[float, ...] = parameter((10.0, 1.0), "scores of the third case")

    def replay(self, context: Context) -> Records:
        """Follow the three rows."""
        del context
        scores = keys_of(self.query, self.keys) @ np.asarray(self.query)
        for name, row in (("keys", scores), ("far", self.far)):
            if len(row) != 2:
                raise ArgumentError(f"{name} gives {len(row)} scores; expected 2, of two keys")
        cases = {
            "raw": scores,
            f"over √{len(self.query)}": scores / math.sqrt(len(self.query)),
            "far apart": np.asarray(self.far),
        }
        for case, row in cases.items():
            followed = follow(row)
            yield {
                "case": case,
                "scores": followed.scores,
                "weights": followed.weights,
                "largest_jacobian_entry": followed.largest_entry,
            }

    def answer(self, table: Table) -> str:
        """Say what the gap does to the gradient."""
        said = [
            f"{row['largest_jacobian_entry']:.6f} at scores "
            + " and ".join(f"{score:g}" for score in row["scores"])
            for row in table
        ]
        return f"The wider the gap, the less moves: the largest Jacobian entry is {_listed(said)}."

    def sketch(self, table: Table) -> Sketch:
        """One panel a case."""
        panels = tuple(
            Panel(
                title=row["case"],
                x_label="score",
                y_label="weight",
                ticks=tuple(f"{score:g}" for score in row["scores"]),
                marks=(Bars.labelled(row["weights"]),),
                y_range=(0.0, 1.12),
            )
            for row in table
        )
        return Sketch(title=self.question, panels=panels, across=3)


def _listed(parts: list[str]) -> str:
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
