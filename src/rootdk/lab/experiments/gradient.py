"""What the width of a head leaves of the gradient that passes through softmax."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rootdk.attention import SoftmaxJacobian
from rootdk.lab._base import Context, Experiment, Method, Records
from rootdk.lab._entries import EXPECTED, Entries, Floats, Law, check_law
from rootdk.lab._parameters import parameter
from rootdk.lab._quasi import mean_jacobian_norm
from rootdk.lab._scales import check_scale, pretty, scale_of
from rootdk.lab._sketch import Level, Line, Panel, Sketch
from rootdk.lab._sweep import sweep
from rootdk.lab._table import Table
from rootdk.lab._text import moved, over_widths
from rootdk.lab.exact import NormalRows, stated
from rootdk.lab.sampler import draw_scores

__all__ = ["Gradient"]

SIZES = ("jacobian_max", "jacobian_trace", "jacobian_norm")


@dataclass(frozen=True, kw_only=True)
class Gradient(Experiment):
    """Largest entry, trace and Frobenius norm of the Jacobian of softmax against head_dim.

    ``replay`` draws the same numbers, in the same order, as the width sweep.
    """

    name: ClassVar[str] = "gradient"
    question: ClassVar[str] = "What does the width of a head leave of the gradient of softmax?"
    order: ClassVar[int] = 40
    tiny: ClassVar[Mapping[str, object]] = {"widths": (4, 8), "queries": 30, "batch": 20, "keys": 5}
    default_seed: ClassVar[int] = 20260718
    packages: ClassVar[tuple[str, ...]] = ("numpy", "scipy")
    random: ClassVar[tuple[Method, ...]] = ("replay", "sample")
    columns: ClassVar[Mapping[str, str]] = {
        "head_dim": "entries of a query and of a key",
        "*_jacobian_max": "largest entry w_max(1 − w_max), mean over rows; at most 1/4",
        "*_jacobian_trace": "trace 1 − Σw², mean over rows; below 1",
        "*_jacobian_norm": "Frobenius norm, mean over rows",
        "*_dead_rows_pct": "rows whose largest entry is below 0.001, in per cent",
        "*_standard_error": "standard error of the column named, where it is known",
        "largest_error": "what the other numbers of the row may be off by, shares as parts of 1",
    }

    widths: tuple[int, ...] = parameter((4, 16, 64, 256, 1024), "head_dim of each row", least=1)
    queries: int = parameter(4000, "rows of weights per width", least=1)
    keys: int = parameter(12, "keys of each query", least=1)
    batch: int = parameter(200, "queries drawn at once by replay", least=1)
    distribution: str = parameter("normal", f"law of the entries: {EXPECTED}", check=check_law)
    scale: str = parameter("1/sqrt(d)", "rule for the scaled columns", check=check_scale)

    def replay(self, context: Context) -> Records:
        """Draw every entry of every key, width after width, from one generator."""
        rng = np.random.default_rng(context.seed)
        entries = Entries(law=Law.read(self.distribution))
        for done, width in enumerate(self.widths):
            context.progress(done, len(self.widths), f"head_dim {width}")
            scores = entries.scores(rng, self.queries, self.keys, width, batch=self.batch)
            yield self.row(width, scores)

    def sample(self, context: Context) -> Records:
        """Draw scores in place of keys, where the law of the entries allows it."""
        return sweep(_sampled, self._one_by_one(), context)

    def exact(self, context: Context) -> Records:
        """Integrate, and the norm by quasi-Monte Carlo: normal entries only."""
        return sweep(_computed, self._one_by_one(), context, packages=self.packages)

    def _one_by_one(self) -> list[dict[str, Any]]:
        """Return the parameters of this experiment for each width alone."""
        return [{**self.settings(), "widths": (width,)} for width in self.widths]

    def row(self, width: int, scores: Floats) -> dict[str, object]:
        """Return the row of a width from its scores, ``(queries, keys)``, before the scale."""
        scale = scale_of(self.scale, head_dim=width, keys=self.keys)
        return {"head_dim": width, **_paired(_sizes(scores), _sizes(scores * scale))}

    def answer(self, table: Table) -> str:
        """Say what is left at both ends."""
        first, last = next(iter(table)), list(table)[-1]
        raw, scaled = (
            moved(first[f"{kind}_jacobian_max"], last[f"{kind}_jacobian_max"], 3)
            for kind in ("raw", "scaled")
        )
        return (
            f"{over_widths(table['head_dim'])} the largest entry of the Jacobian {raw} raw, and "
            f"{scaled} times {pretty(self.scale)}; in the end {last['raw_dead_rows_pct']:.0f} % "
            f"and {last['scaled_dead_rows_pct']:.0f} % of the rows have no entry above {DEAD:g}."
        )

    def sketch(self, table: Table) -> Sketch:
        """One panel for each size of the Jacobian."""
        titles = {
            "jacobian_max": ("largest entry", "w_max(1 − w_max)", "bound 1/4", 0.25),
            "jacobian_trace": ("trace", "1 − Σw²", f"uniform, 1 − 1/{self.keys}",
                               1.0 - 1.0 / self.keys),
            "jacobian_norm": ("Frobenius norm", "norm", "", None),
        }  # fmt: skip
        panels = []
        for size, (title, y_label, bound, height) in titles.items():
            marks = [
                Line(label=label, x=table["head_dim"], y=table[f"{kind}_{size}"], color=color)
                for label, kind, color in (
                    ("raw", "raw", 1),
                    (f"× {pretty(self.scale)}", "scaled", 0),
                )
            ]
            levels = [] if height is None else [Level(label=bound, y=height)]
            panels.append(
                Panel(
                    title=f"{title} of the Jacobian",
                    x_label="head_dim",
                    y_label=f"{y_label}, mean over rows",
                    marks=(*marks, *levels),
                    x_log=2,
                    y_range=(0.0, None),
                )
            )
        return Sketch(title=self.question, panels=tuple(panels), across=3)


DEAD = 0.001


def _sizes(scores: Floats) -> dict[str, float]:
    jacobian = SoftmaxJacobian.from_scores(scores)
    largest = np.asarray(jacobian.max_entry)
    found = {
        "jacobian_max": largest,
        "jacobian_trace": np.asarray(jacobian.trace),
        "jacobian_norm": np.asarray(jacobian.frobenius_norm),
        "dead_rows_pct": 100.0 * (largest < DEAD),
    }
    return {name: float(values.mean()) for name, values in found.items()}


def _paired(raw: Mapping[str, float | None], scaled: Mapping[str, float | None]) -> dict[str, Any]:
    """Return columns in the order of the table: each raw one, and the scaled one beside it."""
    kinds = (("raw", raw), ("scaled", scaled))
    return {f"{kind}_{name}": found[name] for name in raw for kind, found in kinds}


def _sampled(rng: np.random.Generator, **parameters: Any) -> Records:
    """Yield the row of the one width in these parameters, from scores drawn for it."""
    made = Gradient(**parameters)
    (width,) = made.widths
    entries = Entries(law=Law.read(made.distribution))
    blocks = draw_scores(rng, entries, head_dim=width, queries=made.queries, keys=made.keys)
    yield made.row(width, np.concatenate(list(blocks)))


def _computed(rng: np.random.Generator, **parameters: Any) -> Records:
    """Yield the row of the one width in these parameters, by quadrature."""
    del rng
    made = Gradient(**parameters)
    (width,) = made.widths
    entries = Entries(law=Law.read(made.distribution))
    both: list[dict[str, float | None]] = []
    errors = []
    for scale in (1.0, scale_of(made.scale, head_dim=width, keys=made.keys)):
        rows = NormalRows(entries=entries, head_dim=width, keys=made.keys, scale=scale)
        # a largest weight that leaves w(1 − w) = DEAD, on its upper branch
        dead = rows.over(0.5 + (0.25 - DEAD) ** 0.5)
        norm = mean_jacobian_norm(rows)
        both.append({
            "jacobian_max": rows["jacobian_max"].value,
            "jacobian_trace": 1.0 - rows["squared_weights"].value,
            "jacobian_norm": None if norm is None else norm.value,
            "dead_rows_pct": 100.0 * dead.value,
            "jacobian_norm_standard_error": None if norm is None else norm.standard_error,
        })  # fmt: skip
        errors += [one.error for one in (rows["jacobian_max"], rows["squared_weights"], dead)]
    yield {"head_dim": width, **_paired(*both), "largest_error": stated(*errors)}
