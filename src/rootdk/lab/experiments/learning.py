"""What a wrong scale costs a tiny transformer that learns to recall."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rootdk.lab._base import Context, Experiment, Method, Records
from rootdk.lab._parameters import parameter
from rootdk.lab._recall import OPTIMIZERS, Recall, train
from rootdk.lab._scales import check_scale, pretty, scale_of
from rootdk.lab._sketch import Level, Line, Panel, Sketch
from rootdk.lab._sweep import sweep
from rootdk.lab._table import Table

__all__ = ["Learning"]

SHOWN = {
    "loss": ("loss", "cross-entropy in nats", 10),
    "query_gradient": ("gradient of W_q", "norm", 10),
    "entropy_nats": ("entropy of the weights", "nats", None),
}
HALF = 0.5


@dataclass(frozen=True, kw_only=True)
class Learning(Experiment):
    """A transformer of one block trained on associative recall, under several scales.

    Projections are initialised so that queries and keys have entries of size 1, where the
    square root is the right scale. Data and initial weights are the same under every scale.
    """

    name: ClassVar[str] = "learning"
    question: ClassVar[str] = "What does a wrong scale cost a model that learns to recall?"
    order: ClassVar[int] = 90
    slow: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("torch",)
    packages: ClassVar[tuple[str, ...]] = ("numpy", "torch")
    random: ClassVar[tuple[Method, ...]] = ("sample",)
    tiny: ClassVar[Mapping[str, object]] = {
        "head_dims": (4,),
        "scales": ("none", "1/sqrt(d)"),
        "seeds": 2,
        "steps": 4,
        "every": 2,
        "width": 8,
        "pairs": 4,
    }
    columns: ClassVar[Mapping[str, str]] = {
        "head_dim": "width of the only head",
        "scale": "rule for what scores are multiplied by",
        "step": "steps of the optimizer done",
        "loss": "cross-entropy in nats on sequences not seen before, mean over seeds",
        "loss_low": "the smallest of the seeds",
        "loss_high": "the largest of the seeds",
        "recalled": "part of the questions answered with the right value, mean over seeds",
        "*_gradient*": "norm of the gradient of the projection to queries or to keys: mean over "
        "seeds, and the smallest and the largest",
        "entropy_nats*": "entropy of the weights: mean over seeds, the smallest, the largest",
        "spread": "standard deviation of the scaled scores, mean over seeds",
    }

    head_dims: tuple[int, ...] = parameter((16, 64, 256), "widths of the head", least=1)
    scales: tuple[str, ...] = parameter(
        ("sqrt(d)", "none", "1/sqrt(d)", "1/sqrt(d_model)", "1/d"),
        "rules for the scale",
        check=check_scale,
    )
    seeds: int = parameter(3, "runs of each, with other data and initial weights", least=1)
    steps: int = parameter(300, "steps of the optimizer", least=1)
    every: int = parameter(10, "steps between two rows", least=1)
    width: int = parameter(64, "entries of a token", least=2)
    pairs: int = parameter(32, "pairs of a key and a value in a sequence", least=2, most=64)
    rate: float = parameter(0.003, "learning rate", least=0.0)
    optimizer: str = parameter("adam", "adam, or sgd with momentum 0.9", choices=OPTIMIZERS)
    num_heads: int = parameter(8, "heads, for d_model in a scale", least=1)

    def sample(self, context: Context) -> Records:
        """Train once for each head_dim, scale and seed."""
        tasks = [
            {
                **self.settings(), "head_dims": (head_dim,), "scales": (scale,),
                "seeds": 1, "entropy": [context.seed, repeat],
            }
            for head_dim in self.head_dims for scale in self.scales
            for repeat in range(self.seeds)
        ]  # fmt: skip
        runs = Table.of(sweep(_trained, tasks, context, packages=self.packages))
        for head_dim in self.head_dims:
            for scale in self.scales:
                for step in range(0, self.steps + 1, self.every):
                    chosen = {"head_dim": head_dim, "scale": scale, "step": step}
                    yield {**chosen, **_over_seeds(runs.where(**chosen))}

    def answer(self, table: Table) -> str:
        """Say after how many steps half of the values are recalled."""
        narrow, wide = self.head_dims[0], self.head_dims[-1]
        said = []
        for scale in self.scales:
            steps = [_half_at(table, head_dim, scale) for head_dim in (narrow, wide)]
            words = ["never" if step is None else f"{step}" for step in steps]
            said.append(f"{words[0]} and {words[1]} with {_called(scale)}")
        return (
            f"Half of the values are recalled, at head_dim {narrow} and at {wide}, after this "
            f"many of {self.steps} steps: {', '.join(said)}."
        )

    def sketch(self, table: Table) -> Sketch:
        """One column a head_dim: loss, gradient and entropy through time."""
        panels = [
            self._panel(table, head_dim, column) for column in SHOWN for head_dim in self.head_dims
        ]
        return Sketch(title=self.question, panels=tuple(panels), across=len(self.head_dims))

    def _panel(self, table: Table, head_dim: int, column: str) -> Panel:
        title, y_label, log = SHOWN[column]
        lines = []
        for place, scale in enumerate(self.scales):
            chosen = table.where(head_dim=head_dim, scale=scale)
            gaps = None in chosen[column]
            lines.append(
                Line(
                    label=_called(scale),
                    x=chosen["step"],
                    y=_above_zero(chosen[column], log),
                    low=None if gaps else _above_zero(chosen[f"{column}_low"], log),
                    high=None if gaps else _above_zero(chosen[f"{column}_high"], log),
                    color=_COLORS.get(scale, 2 + place),
                    markers=False,
                )
            )
        guessing = [Level(label="guessing", y=float(np.log(Recall.values)))]
        return Panel(
            title=f"{title}, head_dim {head_dim}",
            x_label="step",
            y_label=y_label,
            marks=(*lines, *(guessing if column == "loss" else ())),
            y_log=log,
        )


_COLORS = {"1/sqrt(d)": 0, "none": 1, "sqrt(d)": 4, "1/sqrt(d_model)": 2, "1/d": 3}
"""As in the other experiments: blue for the square root, red for no scale."""

SMALLEST = 1e-8
"""Drawn for what is smaller, on a logarithmic axis."""


def _called(scale: str) -> str:
    return "no scale" if scale == "none" else pretty(scale)


def _above_zero(values: tuple[float | None, ...], log: int | None) -> tuple[Any, ...]:
    """Return what can be drawn on the axis; a gap where there is no finite number."""
    least = -math.inf if log is None else SMALLEST
    return tuple(None if value is None else max(value, least) for value in values)


def _trained(rng: np.random.Generator, *, entropy: list[int], **parameters: Any) -> Records:
    """Yield the rows of the one run in these parameters; its seed is shared with other scales."""
    del rng
    made = Learning(**parameters)
    (head_dim,), (scale,) = made.head_dims, made.scales
    seen = train(
        np.random.SeedSequence(entropy),
        recall=Recall(pairs=made.pairs),
        scale=scale_of(scale, head_dim=head_dim, keys=made.pairs, num_heads=made.num_heads),
        head_dim=head_dim,
        width=made.width,
        steps=made.steps,
        every=made.every,
        rate=made.rate,
        optimizer=made.optimizer,
    )
    for row in seen:
        yield {"head_dim": head_dim, "scale": scale, **row}


def _over_seeds(runs: Table) -> dict[str, object]:
    """Return mean and extremes over the runs; None where a run has no finite number."""
    row: dict[str, object] = {}
    for column in ("loss", "recalled", "query_gradient", "key_gradient", "entropy_nats", "spread"):
        values = np.array(runs[column], dtype=float)
        row[column] = values.mean()
        if column not in ("recalled", "spread"):
            row[f"{column}_low"], row[f"{column}_high"] = values.min(), values.max()
    return row


def _half_at(table: Table, head_dim: int, scale: str) -> int | None:
    """Return the first step from which half of the questions are answered."""
    rows = table.where(head_dim=head_dim, scale=scale)
    return next((row["step"] for row in rows if row["recalled"] >= HALF), None)
