"""The smallest row that shows everything: one query, four keys, by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rootdk.lab._base import Context, Experiment, Records
from rootdk.lab._follow import follow, keys_of
from rootdk.lab._parameters import parameter
from rootdk.lab._sketch import Bars, Panel, Sketch
from rootdk.lab._table import Table
from rootdk.lab._text import moved

__all__ = ["FourKeyRow"]

_KEYS = (
    (1.0, 0.0, 1.0, 0.0),
    (0.0, 1.0, 0.0, 1.0),
    (1.0, -1.0, 0.5, 0.5),
    (0.5, -0.5, -1.0, 1.0),
)


@dataclass(frozen=True, kw_only=True)
class FourKeyRow(Experiment):
    """One row through score, scale, softmax and Jacobian, small enough to check by hand."""

    name: ClassVar[str] = "four-key-row"
    question: ClassVar[str] = "What do one query and four keys become, with the scale and without?"
    order: ClassVar[int] = 10
    tiny: ClassVar[Mapping[str, object]] = {}
    columns: ClassVar[Mapping[str, str]] = {
        "key": "which key, from 1",
        "raw_scores": "query · key",
        "scaled_scores": "the same over √head_dim",
        "raw_weights": "softmax of the raw scores",
        "scaled_weights": "softmax of the scaled scores",
        "raw_jacobian_diagonal": "w(1 − w) of the raw weight: how far it moves with its score",
        "scaled_jacobian_diagonal": "w(1 − w) of the scaled weight",
    }

    query: tuple[float, ...] = parameter((1.0, -1.0, 0.5, 0.5), "entries of the query")
    keys: tuple[float, ...] = parameter(
        tuple(entry for key in _KEYS for entry in key), "entries of the keys, one after another"
    )

    def replay(self, context: Context) -> Records:
        """Follow the row."""
        del context
        scores = keys_of(self.query, self.keys) @ np.asarray(self.query)
        raw, scaled = follow(scores), follow(scores / math.sqrt(len(self.query)))
        for place in range(len(scores)):
            yield {
                "key": place + 1,
                "raw_scores": raw.scores[place],
                "scaled_scores": scaled.scores[place],
                "raw_weights": raw.weights[place],
                "scaled_weights": scaled.weights[place],
                "raw_jacobian_diagonal": raw.diagonal[place],
                "scaled_jacobian_diagonal": scaled.diagonal[place],
            }

    def answer(self, table: Table) -> str:
        """Say what the scale does to the largest weight."""
        root = math.sqrt(len(self.query))
        largest = moved(max(table["raw_weights"]), max(table["scaled_weights"]), 3)
        entry = moved(
            max(table["raw_jacobian_diagonal"]), max(table["scaled_jacobian_diagonal"]), 3
        )
        return (
            f"Over √{len(self.query)} = {root:.4g} the order of the keys stays; the largest weight "
            f"{largest}, and the largest entry of the Jacobian {entry}."
        )

    def sketch(self, table: Table) -> Sketch:
        """Scores, weights and the diagonal of the Jacobian, raw beside scaled."""
        return Sketch(
            title=self.question,
            across=3,
            panels=(
                _panel(table, "scores", "scores", "score", 2),
                _panel(table, "weights", "weights after softmax", "weight", 3),
                _panel(table, "jacobian_diagonal", "diagonal of the Jacobian", "w(1 − w)", 3),
            ),
        )


def _panel(table: Table, column: str, title: str, y_label: str, digits: int) -> Panel:
    return Panel(
        title=title,
        x_label="key",
        y_label=y_label,
        ticks=tuple(str(key) for key in table["key"]),
        marks=(
            Bars.labelled(table[f"raw_{column}"], label="raw", digits=digits, color=1),
            Bars.labelled(table[f"scaled_{column}"], label="scaled", digits=digits, color=0),
        ),
    )
