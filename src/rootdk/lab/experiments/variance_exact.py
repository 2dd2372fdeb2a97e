"""The variance of a score without sampling: every case is counted, none is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from rootdk._lib.errors import ArgumentError
from rootdk.lab._base import Context, Experiment, Records
from rootdk.lab._parameters import parameter
from rootdk.lab._sketch import Bars, Line, Panel, Sketch
from rootdk.lab._table import Table
from rootdk.lab.lattice import Distribution, dot_product, dot_product_by_listing, entry

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
    counts them without listing any, in whole numbers, at any head_dim.
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
        return self._rows(context, dot_product_by_listing)

    def exact(self, context: Context) -> Records:
        """Take the power of the distribution of one product."""
        return self._rows(context, dot_product)

    def _rows(
        self, context: Context, distribution: Callable[[Distribution, int], Distribution]
    ) -> Records:
        chances = [Fraction(chance) for chance in self.chances or ()]
        one = entry([Fraction(value) for value in self.values], chances)
        for done, width in enumerate(self.widths):
            context.progress(done, len(self.widths), f"head_dim {width}")
            yield _row(width, one, distribution(one, width))

    def answer(self, table: Table) -> str:
        """Say which of the scales keeps the variance."""
        last = list(table)[-1]
        first = next(iter(table))
        return (
            f"By √head_dim: from head_dim {first['head_dim']} to {last['head_dim']} the variance "
            f"goes from {first['variance_raw']:g} to {last['variance_raw']:g} undivided, and "
            f"stays {last['variance_over_sqrt_d']:g} over √head_dim; over head_dim it falls to "
            f"{last['variance_over_d']:.3g}, over head_dim^0.25 it rises to "
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


def _row(width: int, one: Distribution, scores: Distribution) -> dict[str, object]:
    variance = scores.variance
    each = one.total**2
    total = each**width
    few = total <= EXACT_IN_FLOAT64
    return {
        "head_dim": width,
        "cases": total if few else f"{each}^{width}",
        "variance_raw": variance,
        "variance_over_fourth_root_d": float(variance) / math.sqrt(width),
        "variance_over_sqrt_d": variance / width,
        "variance_over_d": variance / width**2,
        "kurtosis": _fourth(scores) / variance**2 if variance else None,
        "score_values": tuple(scores.cases) if few else None,
        "score_cases": tuple(scores.cases.values()) if few else None,
    }


def _fourth(scores: Distribution) -> Fraction:
    """Return the fourth central moment."""
    mean = scores.moment(1)
    return (
        Fraction(sum((value - mean) ** 4 * n for value, n in scores.cases.items())) / scores.total
    )
