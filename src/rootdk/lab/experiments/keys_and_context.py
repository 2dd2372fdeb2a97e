"""What the number of keys does to the weights, and when a softmax condenses on a few of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rootdk.lab._base import Context, Experiment, Method, Records
from rootdk.lab._entries import Entries, Law
from rootdk.lab._parameters import parameter
from rootdk.lab._row_law import QUANTITIES, row_expectations
from rootdk.lab._rows import RowMeans
from rootdk.lab._scales import check_scale, pretty, scale_of
from rootdk.lab._sketch import Level, Line, Panel, Sketch
from rootdk.lab._sweep import sweep
from rootdk.lab._table import Table
from rootdk.lab.exact import NormalRows, stated
from rootdk.lab.sampler import draw_scores

__all__ = ["KeysAndContext"]

MEANS = ("max_weight", "entropy_nats", "squared_weights", "log_normaliser")
FIXED = "fixed spread"
MOST_CURVES = 3


@dataclass(frozen=True, kw_only=True)
class KeysAndContext(Experiment):
    """Largest weight and entropy against the number of keys, head_dim and scale fixed.

    A scale that grows with log n, as some models with long contexts use it, is one of the rules.
    Rows of one fixed spread show where a softmax over n independent normal scores condenses:
    beyond a spread of √(2 ln n) a few keys hold the row, however many there are (in physics, the
    freezing of the random energy model, Derrida 1981).
    """

    name: ClassVar[str] = "keys-and-context"
    question: ClassVar[str] = "What does the number of keys do to the weights of a row?"
    order: ClassVar[int] = 70
    packages: ClassVar[tuple[str, ...]] = ("numpy", "scipy")
    random: ClassVar[tuple[Method, ...]] = ("sample",)
    tiny: ClassVar[Mapping[str, object]] = {
        "keys": (4, 16),
        "ratios": (0.5, 2.0),
        "scales": ("1/sqrt(d)",),
        "scores": 400,
    }
    columns: ClassVar[Mapping[str, str]] = {
        "scale": f"rule for what scores are multiplied by; {FIXED}: the same in all rows",
        "keys": "keys of each query, n",
        "spread": "standard deviation of the scaled scores",
        "over_condensing": "the spread, in units of √(2 ln n)",
        "max_weight": "largest weight of a row, mean over rows",
        "entropy_nats": "entropy of a row in nats, mean over rows",
        "entropy_share": "the entropy, in units of ln n",
        "squared_weights": "Σw², mean over rows: 1/n when uniform, 1 on a single key",
        "gap_for_half": "log Σ e^s over the spread, mean over rows: how many standard deviations "
        "above the others one more key must score to hold half of the row",
        "*_standard_error": "standard error of the column named",
        "largest_error": "what the means of the row may be off by",
    }

    head_dim: int = parameter(64, "entries of a query and of a key", least=1)
    keys: tuple[int, ...] = parameter(
        (4, 16, 128, 1024, 8192, 65536, 1048576), "keys of a query", least=2
    )
    scales: tuple[str, ...] = parameter(
        ("1/sqrt(d)", "log(n)/(log(512)*sqrt(d))", "none"), "rules for the scale", check=check_scale
    )
    ratios: tuple[float, ...] = parameter(
        (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0), "fixed spreads, over √(2 ln n)", least=1e-3
    )
    scores: int = parameter(
        1_000_000,
        "scores drawn for each number of keys, of at least 4 and at most 4000 rows",
        least=1,
    )

    @classmethod
    def methods(cls) -> tuple[Method, ...]:
        """Return the exact method first: it is the better one, and as fast."""
        return ("exact", "sample")

    def sample(self, context: Context) -> Records:
        """Draw scores in place of keys."""
        return sweep(_sampled, self._one_by_one(), context)

    def exact(self, context: Context) -> Records:
        """Integrate."""
        return sweep(_computed, self._one_by_one(), context, packages=self.packages)

    def _one_by_one(self) -> list[dict[str, Any]]:
        """Return the parameters of this experiment for each number of keys alone."""
        return [{**self.settings(), "keys": (keys,)} for keys in self.keys]

    def scale_for(self, rule: str, keys: int) -> float:
        """Return the multiplier that a rule gives."""
        return scale_of(rule, head_dim=self.head_dim, keys=keys)

    def answer(self, table: Table) -> str:
        """Say what the first rule and the others leave at the most keys."""
        first, last = self.keys[0], self.keys[-1]
        said = []
        for rule in self.scales:
            few, many = (next(iter(table.where(scale=rule, keys=n))) for n in (first, last))
            said.append(
                f"with {_called(rule)} the mean largest weight goes from {few['max_weight']:.2g} "
                f"over {first} keys to {many['max_weight']:.2g} over {last}, where the entropy is "
                f"{many['entropy_share']:.2f} of ln n and a key needs "
                f"{many['gap_for_half']:.1f} standard deviations to hold half"
            )
        condensing = math.sqrt(2.0 * math.log(last))
        return (
            f"More keys make every weight smaller: {'; '.join(said)}; a row condenses on a few "
            f"keys where its spread passes √(2 ln n), {condensing:.2f} for {last} keys."
        )

    def sketch(self, table: Table) -> Sketch:
        """Weight and entropy against the number of keys, and where rows condense."""
        return Sketch(
            title=self.question,
            across=2,
            panels=(
                self._against_keys(table, "max_weight", "mean largest weight of a row", "weight"),
                self._against_keys(table, "entropy_share", "entropy of a row", "in units of ln n"),
                self._against_keys(
                    table, "gap_for_half", "what one more key needs to hold half of a row",
                    "standard deviations of the scores",
                ),
                self._condensing(table),
            ),
        )  # fmt: skip

    def _against_keys(self, table: Table, column: str, title: str, y_label: str) -> Panel:
        lines = [
            Line(
                label=_called(rule),
                x=(chosen := table.where(scale=rule))["keys"],
                y=chosen[column],
                color=(0, 2, 1)[place] if place < 3 else place,
            )
            for place, rule in enumerate(self.scales)
        ]
        weight = column == "max_weight"
        return Panel(
            title=title,
            x_label="keys",
            y_label=y_label,
            marks=tuple(lines),
            x_log=10 if max(self.keys) > 1000 else 2,
            y_log=10 if weight else None,
            y_range=(None, None) if weight else (0.0, None),
        )

    def _condensing(self, table: Table) -> Panel:
        chosen = sorted({self.keys[0], self.keys[len(self.keys) // 2], self.keys[-1]})
        lines = []
        for place, keys in enumerate(chosen[:MOST_CURVES]):
            rows = table.where(scale=FIXED, keys=keys)
            lines.append(
                Line(
                    label=f"{keys} keys",
                    x=rows["over_condensing"],
                    y=rows["squared_weights"],
                    color=3 + place,
                )
            )
        beyond = [ratio for ratio in self.ratios if ratio >= 1.0]
        limit = Line(
            label="limit",
            x=(min(self.ratios), 1.0, *beyond),
            y=(0.0, 0.0, *(1.0 - 1.0 / ratio for ratio in beyond)),
            color=6,
            dashed=True,
            markers=False,
        )
        return Panel(
            title="where a row condenses",
            x_label="spread, the same in all rows, over √(2 ln n)",
            y_label="Σw², mean over rows",
            marks=(*lines, limit, Level(label="", y=1.0)),
            y_range=(0.0, 1.03),
        )


def _called(rule: str) -> str:
    return "no scale" if rule == "none" else pretty(rule).replace("*", "·")


def _row(rule: str, keys: int, spread: float, found: Mapping[str, float]) -> dict[str, Any]:
    row = {
        "scale": rule,
        "keys": keys,
        "spread": spread,
        "over_condensing": spread / math.sqrt(2.0 * math.log(keys)),
        "max_weight": found["max_weight"],
        "entropy_nats": found["entropy_nats"],
        "entropy_share": found["entropy_nats"] / math.log(keys),
        "squared_weights": found["squared_weights"],
        "gap_for_half": found["log_normaliser"] / spread if spread else math.inf,
    }
    return row


def _computed(rng: np.random.Generator, **parameters: Any) -> Records:
    """Yield the rows of the one number of keys in these parameters, by quadrature."""
    del rng
    made = KeysAndContext(**parameters)
    (keys,) = made.keys
    for rule in made.scales:
        rows = NormalRows(
            entries=Entries(law=Law.read("normal")),
            head_dim=made.head_dim,
            keys=keys,
            scale=made.scale_for(rule, keys),
        )
        found = {name: rows[name].value for name in MEANS}
        error = stated(*(rows[name].error for name in MEANS))
        yield {**_row(rule, keys, rows.spread, found), "largest_error": error}
    for ratio in made.ratios:
        spread = ratio * math.sqrt(2.0 * math.log(keys))
        fine, coarse = row_expectations(spread, keys)
        found = dict(zip(QUANTITIES, fine.tolist(), strict=True))
        error = stated(*np.abs(fine - coarse).tolist())
        yield {**_row(FIXED, keys, spread, found), "largest_error": error}


def _sampled(rng: np.random.Generator, **parameters: Any) -> Records:
    """Yield the rows of the one number of keys in these parameters, from scores drawn for it."""
    made = KeysAndContext(**parameters)
    (keys,) = made.keys
    queries = min(max(made.scores // keys, 4), 4000)
    entries = Entries(law=Law.read("normal"))
    scales = [made.scale_for(rule, keys) for rule in made.scales]
    scores = draw_scores(rng, entries, head_dim=made.head_dim, queries=queries, keys=keys)
    for rule, means in zip(made.scales, RowMeans.of(scores, scales), strict=True):
        yield _with_errors(rule, keys, means.spread.value, means)
    critical = math.sqrt(2.0 * math.log(keys))
    spreads = [ratio * critical for ratio in made.ratios]
    at_once = max(1, 2**20 // keys)
    blocks = (
        rng.standard_normal((min(at_once, queries - start), keys))
        for start in range(0, queries, at_once)
    )
    for spread, means in zip(spreads, RowMeans.of(blocks, spreads), strict=True):
        yield _with_errors(FIXED, keys, spread, means)


def _with_errors(rule: str, keys: int, spread: float, means: RowMeans) -> dict[str, Any]:
    found = {name: means[name].value for name in MEANS}
    errors = {
        f"{name}_standard_error": means[name].standard_error
        for name in ("max_weight", "entropy_nats", "squared_weights")
    }
    return {**_row(rule, keys, spread, found), **errors}
