"""The main table: what the width of a head does to scores and weights, with a scale and without."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rootdk.attention import softmax
from rootdk.lab._base import Context, Experiment, Method, Records
from rootdk.lab._entries import EXPECTED, Entries, Floats, Law, check_law
from rootdk.lab._parameters import parameter
from rootdk.lab._rows import RowMeans
from rootdk.lab._scales import check_scale, pretty, scale_of
from rootdk.lab._sketch import Level, Line, Panel, Sketch
from rootdk.lab._sweep import sweep
from rootdk.lab._table import Table
from rootdk.lab._text import moved, over_widths
from rootdk.lab.exact import SHARES, NormalRows, stated
from rootdk.lab.sampler import draw_scores

__all__ = ["WidthSweep"]


@dataclass(frozen=True, kw_only=True)
class WidthSweep(Experiment):
    """Spread, largest weight, entropy and saturated rows against head_dim, raw and scaled."""

    name: ClassVar[str] = "width-sweep"
    question: ClassVar[str] = "What does the width of a head do to its scores and weights?"
    order: ClassVar[int] = 20
    tiny: ClassVar[Mapping[str, object]] = {"widths": (4, 8), "queries": 30, "batch": 20, "keys": 5}
    default_seed: ClassVar[int] = 20260718
    packages: ClassVar[tuple[str, ...]] = ("numpy", "scipy")
    random: ClassVar[tuple[Method, ...]] = ("replay", "sample")
    columns: ClassVar[Mapping[str, str]] = {
        "head_dim": "entries of a query and of a key",
        "raw_score_std": "standard deviation of all scores before the scale (ddof 0)",
        "scaled_score_std": "the same after the scale",
        "mean_max_weight_*": "largest weight of a row, mean over rows, raw or scaled scores",
        "mean_entropy_*": "entropy of a row in nats, mean over rows",
        "*_rows_over_*_pct": "rows whose largest weight exceeds 0.50, 0.90 or 0.99, in per cent",
        "*_standard_error": "standard error of the column named, where it is known",
        "largest_error": "what the numbers of the row may be off by, shares as parts of 1",
    }

    widths: tuple[int, ...] = parameter((4, 16, 64, 256, 1024), "head_dim of each row", least=1)
    queries: int = parameter(4000, "rows of weights per width", least=1)
    keys: int = parameter(12, "keys of each query", least=1)
    batch: int = parameter(200, "queries drawn at once by replay", least=1)
    distribution: str = parameter("normal", f"law of the entries: {EXPECTED}", check=check_law)
    query_std: float = parameter(1.0, "standard deviation of query entries", least=0.0)
    key_std: float = parameter(1.0, "standard deviation of key entries", least=0.0)
    mean: float = parameter(0.0, "mean of all entries")
    correlation: float = parameter(0.0, "of query and key entries", least=-1.0, most=1.0)
    scale: str = parameter("1/sqrt(d)", "rule for the scaled columns", check=check_scale)
    num_heads: int = parameter(8, "heads, for d_model in the scale", least=1)

    def replay(self, context: Context) -> Records:
        """Draw every entry of every key, width after width, from one generator."""
        rng = np.random.default_rng(context.seed)
        for done, width in enumerate(self.widths):
            context.progress(done, len(self.widths), f"head_dim {width}")
            scores = self.entries.scores(rng, self.queries, self.keys, width, batch=self.batch)
            yield {"head_dim": width, **summary(scores, self.scale_at(width))}

    def sample(self, context: Context) -> Records:
        """Draw scores in place of keys, where the law of the entries allows it."""
        return sweep(_sampled, self._one_by_one(), context)

    def exact(self, context: Context) -> Records:
        """Integrate: normal entries only."""
        return sweep(_computed, self._one_by_one(), context, packages=self.packages)

    def _one_by_one(self) -> list[dict[str, Any]]:
        """Return the parameters of this experiment for each width alone."""
        return [{**self.settings(), "widths": (width,)} for width in self.widths]

    @property
    def entries(self) -> Entries:
        """The entries that the parameters describe."""
        return Entries(
            law=Law.read(self.distribution),
            query_std=self.query_std,
            key_std=self.key_std,
            mean=self.mean,
            correlation=self.correlation,
        )

    def scale_at(self, width: int) -> float:
        """Return the multiplier of the scaled columns at one width."""
        return scale_of(self.scale, head_dim=width, keys=self.keys, num_heads=self.num_heads)

    def answer(self, table: Table) -> str:
        """Say what widths at both ends give."""
        first, last = next(iter(table)), list(table)[-1]
        # As np.round has it, ties to even: 0.15 is printed as 0.2.
        raw, scaled = (
            [np.round(row[f"{kind}_rows_over_90_pct"], 1) for row in (first, last)]
            for kind in ("raw", "scaled")
        )
        return (
            f"{over_widths(table['head_dim'])} the raw spread "
            f"{moved(first['raw_score_std'], last['raw_score_std'], 2)} and the rows with over "
            f"90 % on one key go from {raw[0]} to {raw[1]} %; times {pretty(self.scale)} the "
            f"spread is {first['scaled_score_std']:.3f} and {last['scaled_score_std']:.3f}, and "
            f"those rows are {scaled[0]} and {scaled[1]} %."
        )

    def sketch(self, table: Table) -> Sketch:
        """Two panels: the spread, and the largest weight."""
        spread = self._lines(table, "raw_score_std", "scaled_score_std")
        weight = self._lines(table, "mean_max_weight_raw", "mean_max_weight_scaled")
        x_label = "head_dim"
        return Sketch(
            title=self.question,
            panels=(
                Panel(
                    title="spread of the scores",
                    x_label=x_label,
                    y_label="standard deviation of the scores",
                    marks=spread,
                    x_log=2,
                    y_log=2,
                ),
                Panel(
                    title="mean largest weight of a row",
                    x_label=x_label,
                    y_label="weight",
                    marks=(*weight, Level(label=f"uniform, 1/{self.keys}", y=1 / self.keys)),
                    x_log=2,
                    y_range=(0.0, 1.02),
                ),
            ),
        )

    def _lines(self, table: Table, raw: str, scaled: str) -> tuple[Line, ...]:
        x = table["head_dim"]
        return (
            Line(label="raw", x=x, y=table[raw], color=1),
            Line(label=f"× {pretty(self.scale)}", x=x, y=table[scaled], color=0),
        )


def summary(scores: Floats, scale: float) -> dict[str, float]:
    """Return the columns of one width from its scores, ``(queries, keys)``, before the scale."""
    found = {}
    for kind, values in (("raw", scores), ("scaled", scores * scale)):
        weights = softmax(values)
        largest = weights.max(axis=-1)
        found[f"{kind}_score_std"] = values.std()
        found[f"mean_max_weight_{kind}"] = largest.mean()
        found[f"mean_entropy_{kind}"] = mean_entropy(weights)
        for share in SHARES:
            over = 100.0 * np.mean(largest > share / 100.0)
            found[f"{kind}_rows_over_{share}_pct"] = over
    return _paired(found)


def _paired(found: Mapping[str, Any]) -> dict[str, float]:
    """Return columns in the order of the table: each raw one, and the scaled one beside it."""
    pairs = [name for name in found if "raw" in name]
    names = [name for raw in pairs for name in (raw, raw.replace("raw", "scaled"))]
    return {name: float(found[name]) for name in names}


WITH_ERROR = ("{}_score_std", "mean_max_weight_{}", "mean_entropy_{}", "{}_rows_over_90_pct")
"""Columns whose standard error is given."""


def _sampled(rng: np.random.Generator, **parameters: Any) -> Records:
    """Yield the row of the one width in these parameters, from scores drawn for it."""
    made = WidthSweep(**parameters)
    (width,) = made.widths
    scores = draw_scores(rng, made.entries, head_dim=width, queries=made.queries, keys=made.keys)
    found: dict[str, float] = {}
    errors: dict[str, float] = {}
    for kind, means in zip(
        ("raw", "scaled"), RowMeans.of(scores, (1.0, made.scale_at(width)), SHARES), strict=True
    ):
        columns = {
            f"{kind}_score_std": means.spread,
            f"mean_max_weight_{kind}": means["max_weight"],
            f"mean_entropy_{kind}": means["entropy_nats"],
            **{f"{kind}_rows_over_{share}_pct": means.over(share).times(100.0) for share in SHARES},
        }
        found |= {name: mean.value for name, mean in columns.items()}
        for name in (column.format(kind) for column in WITH_ERROR):
            errors[f"{name}_standard_error"] = columns[name].standard_error
    yield {"head_dim": width, **_paired(found), **_paired(errors)}


def _computed(rng: np.random.Generator, **parameters: Any) -> Records:
    """Yield the row of the one width in these parameters, by quadrature."""
    del rng
    made = WidthSweep(**parameters)
    (width,) = made.widths
    found: dict[str, float] = {}
    errors: list[float] = []
    for kind, scale in (("raw", 1.0), ("scaled", made.scale_at(width))):
        rows = NormalRows(entries=made.entries, head_dim=width, keys=made.keys, scale=scale)
        over = {share: rows.over(share / 100.0) for share in SHARES}
        found[f"{kind}_score_std"] = rows.spread
        found[f"mean_max_weight_{kind}"] = rows["max_weight"].value
        found[f"mean_entropy_{kind}"] = rows["entropy_nats"].value
        for share, chance in over.items():
            found[f"{kind}_rows_over_{share}_pct"] = 100.0 * chance.value
        errors += [one.error for one in (rows["max_weight"], rows["entropy_nats"], *over.values())]
    yield {"head_dim": width, **_paired(found), "largest_error": stated(*errors)}


def mean_entropy(weights: Floats) -> float:
    """Return the mean entropy of rows of weights, in nats; a weight of 0 adds nothing."""
    logs = np.log(weights, out=np.zeros_like(weights), where=weights > 0.0)
    return float(-math.fsum((weights * logs).ravel()) / len(weights))
