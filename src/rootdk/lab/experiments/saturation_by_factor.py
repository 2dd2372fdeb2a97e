"""One row of scores, multiplied by a factor, on its way from uniform to a single key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rootdk._lib.errors import ArgumentError
from rootdk.attention import softmax
from rootdk.lab._base import Context, Experiment, Records
from rootdk.lab._parameters import parameter
from rootdk.lab._sketch import Bars, Panel, Sketch
from rootdk.lab._table import Table

__all__ = ["SaturationByFactor"]


def _above_0(factor: Any) -> None:
    if not factor > 0.0:
        raise ArgumentError.unexpected("factors", factor, "numbers above 0")


@dataclass(frozen=True, kw_only=True)
class SaturationByFactor(Experiment):
    """The same scores times 1, 8 and 0.01: softmax only sees their differences."""

    name: ClassVar[str] = "saturation-by-factor"
    question: ClassVar[str] = "What does multiplying all scores of a row do to its weights?"
    order: ClassVar[int] = 14
    tiny: ClassVar[Mapping[str, object]] = {"factors": (1.0, 8.0)}
    columns: ClassVar[Mapping[str, str]] = {
        "key": "which key, from 1",
        "scores": "its score",
        "weights_times_*": "its weight after softmax of the scores times this factor",
    }

    scores: tuple[float, ...] = parameter((1.0, 2.0, 3.0), "scores of the row")
    factors: tuple[float, ...] = parameter(
        (1.0, 8.0, 0.01), "what to multiply them by", check=_above_0
    )

    def replay(self, context: Context) -> Records:
        """Multiply and normalise."""
        del context
        scores = np.asarray(self.scores)
        weights = {column(factor): softmax(scores * factor) for factor in self.factors}
        for place, score in enumerate(scores):
            row = {"key": place + 1, "scores": score}
            yield {**row, **{name: values[place] for name, values in weights.items()}}

    def answer(self, table: Table) -> str:
        """Say where the weight goes."""
        said = [f"{max(table[column(factor)]):.4f} times {factor:g}" for factor in self.factors]
        return (
            "A factor above 0 keeps the order of the weights and moves the largest of them: it is "
            f"{', '.join(said)}, and 1/{len(table)} would be uniform."
        )

    def sketch(self, table: Table) -> Sketch:
        """One panel a factor, one bar a key."""
        panels = tuple(
            Panel(
                title=f"scores × {factor:g}",
                x_label="score before the factor",
                y_label="weight",
                ticks=tuple(f"{score:g}" for score in table["scores"]),
                marks=(Bars.labelled(table[column(factor)]),),
                y_range=(0.0, 1.12),
            )
            for factor in self.factors
        )
        return Sketch(title=self.question, panels=panels, across=3)


def column(factor: float) -> str:
    """Return the name of the column of a factor."""
    return f"weights_times_{factor:g}"
