"""The variance of a score without sampling: every case is counted, none is drawn."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from rootdk._lib.errors import ArgumentError
from rootdk.lab._base import Context, Experiment, Records
from rootdk.lab._parameters import parameter
from rootdk.lab._sketch import Bars, Line, Panel, Sketch
from rootdk.lab._table import Table
from rootdk.lab.lattice import (
    Distribution,
    Moments,
    TooManyValuesError,
    dot_product,
    dot_product_by_listing,
    entry,
    moments,
)

__all__ = ["VarianceExact"]

EXACT_IN_FLOAT64 = 2**53
MOST_BARS = 17


def _rational(text: Any) -> Fraction:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise ArgumentError.unexpected("value", text, "a rational number: 2, -1/2, 0.25") from None


@dataclass(frozen=True, kw_only=True)
class VarianceExact(Experiment):
    """The distribution of q · k over all pairs of vectors, and its variance under three scales.

    ``replay`` lists the pairs, of which there are 4^head_dim if an entry is +1 or −1; ``exact``
    counts them without listing any, in whole numbers. Where the distribution itself would have too
    many values, its moments are exact still: the cumulants of the products add up.
    """

    name: ClassVar[str] = "variance-exact"
    question: ClassVar[str] = "By what must a score be divided for its variance to stay the same?"
    order: ClassVar[int] = 31
    tiny: ClassVar[Mapping[str, object]] = {"widths": (1, 2, 4)}
    packages: ClassVar[tuple[str, ...]] = ()
    columns: ClassVar[Mapping[str, str]] = {
        "head_dim": "entries of a query and of a key",
        "cases": "pairs of vectors, by their chances; written as a power where it is beyond 2^53",
        "variance_raw": "variance of the score",
        "variance_over_fourth_root_d": "variance of the score over head_dim^0.25",
        "variance_over_sqrt_d": "variance of the score over √head_dim",
        "variance_over_d": "variance of the score over head_dim",
        "kurtosis": "fourth central moment over the squared variance; 3 if it were normal",
        "counted": "whether the distribution was counted, or only its moments",
        "score_values": "the values that the score has; none where there are too many cases",
        "score_cases": "in how many cases it has each",
    }

    widths: tuple[int, ...] = parameter((1, 2, 4, 6, 8), "head_dim of each row", least=1)
    values: tuple[str, ...] = parameter(
        ("-1", "1"), "what an entry can be: rational numbers", check=_rational
    )
    chances: tuple[str, ...] | None = parameter(
        None, "in what proportion; none for equal", check=_rational
    )

    def replay(self, context: Context) -> Records:
        """List every pair."""
        for width, one in self._widths(context):
            yield _row(width, one, dot_product_by_listing(one, width))

    def exact(self, context: Context) -> Records:
        """Take the power of the distribution of one product."""
        for width, one in self._widths(context):
            try:
                yield _row(width, one, dot_product(one, width))
            except TooManyValuesError:
                yield _row(width, one, None)

    def _widths(self, context: Context) -> Iterator[tuple[int, Distribution]]:
        chances = [Fraction(chance) for chance in self.chances or ()]
        one = entry([Fraction(value) for value in self.values], chances)
        for done, width in enumerate(self.widths):
            context.progress(done, len(self.widths), f"head_dim {width}")
            yield width, one

    def answer(self, table: Table) -> str:
        """Say which of the scales keeps the variance."""
        last = list(table)[-1]
        first = next(iter(table))
        return (
            f"By √head_dim: undivided, the variance is {first['variance_raw']:.6g} at head_dim "
            f"{first['head_dim']} and {last['variance_raw']:.6g} at {last['head_dim']}; over "
            f"√head_dim it is {first['variance_over_sqrt_d']:.6g} and "
            f"{last['variance_over_sqrt_d']:.6g}, over head_dim {first['variance_over_d']:.3g} and "
            f"{last['variance_over_d']:.3g}, over head_dim^0.25 "
            f"{first['variance_over_fourth_root_d']:.3g} and "
            f"{last['variance_over_fourth_root_d']:.3g}."
        )

    def sketch(self, table: Table) -> Sketch:
        """The variance under each scale, and the distribution behind the last row that has one."""
        x = table["head_dim"]
        lines = [
            Line(label=label, x=x, y=table[column], color=color)
            for color, (label, column) in enumerate(
                [
                    ("over √d", "variance_over_sqrt_d"),
                    ("raw", "variance_raw"),
                    ("over d", "variance_over_d"),
                    ("over d^0.25", "variance_over_fourth_root_d"),
                ]
            )
        ]
        panels = [
            Panel(
                title="variance of the score",
                x_label="head_dim",
                y_label="variance",
                marks=tuple(lines),
                x_log=2,
                y_log=2,
            )
        ]
        panels += [_bars(row) for row in table if _is_drawn(row)][-1:]
        return Sketch(title=self.question, panels=tuple(panels))


def _is_drawn(row: Mapping[str, Any]) -> bool:
    return row["score_values"] is not None and len(row["score_values"]) <= MOST_BARS


def _bars(row: Mapping[str, Any]) -> Panel:
    total = sum(row["score_cases"])
    return Panel(
        title=f"all {total} cases at head_dim {row['head_dim']}",
        x_label="score",
        y_label="share of the cases",
        ticks=tuple(f"{value:g}" for value in row["score_values"]),
        marks=(Bars(label="", heights=tuple(n / total for n in row["score_cases"]), color=1),),
    )


def _row(width: int, one: Distribution, scores: Distribution | None) -> dict[str, object]:
    """Return the row of a width; without a distribution, from the moments of one product."""
    found = moments(one, width) if scores is None else Moments.of(scores)
    each = one.total**2
    shown = scores if each**width <= EXACT_IN_FLOAT64 else None
    return {
        "head_dim": width,
        "cases": f"{each}^{width}" if shown is None else shown.total,
        "variance_raw": found.variance,
        "variance_over_fourth_root_d": float(found.variance) / math.sqrt(width),
        "variance_over_sqrt_d": found.variance / width,
        "variance_over_d": found.variance / width**2,
        "kurtosis": found.fourth / found.variance**2 if found.variance else None,
        "counted": scores is not None,
        "score_values": None if shown is None else tuple(shown.cases),
        "score_cases": None if shown is None else tuple(shown.cases.values()),
    }
