"""What the initialisation of the projections makes of the spread that the proof gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rootdk._lib.errors import ArgumentError
from rootdk.lab._base import Context, Experiment, Method, Records
from rootdk.lab._entries import Floats
from rootdk.lab._parameters import parameter
from rootdk.lab._sketch import Level, Line, Panel, Sketch
from rootdk.lab._sweep import sweep
from rootdk.lab._table import Table

__all__ = ["Initialisation"]


def _unit(width: int, head_dim: int) -> tuple[float, float]:
    del head_dim
    return width**-0.5, width**-0.5


def _linear(width: int, head_dim: int) -> tuple[float, float]:
    # uniform between ±1/√width, what the constructor of torch.nn.Linear does
    del head_dim
    return (3.0 * width) ** -0.5, (3.0 * width) ** -0.5


def _small(width: int, head_dim: int) -> tuple[float, float]:
    del width, head_dim
    return 0.02, 0.02


def _xavier(width: int, head_dim: int) -> tuple[float, float]:
    # all heads in one square matrix, as most code has it
    del head_dim
    return width**-0.5, width**-0.5


def _packed(width: int, head_dim: int) -> tuple[float, float]:
    # query, key and value in one matrix, width × 3·width
    del head_dim
    return (2.0 / (4.0 * width)) ** 0.5, (2.0 / (4.0 * width)) ** 0.5


def _kaiming(width: int, head_dim: int) -> tuple[float, float]:
    del head_dim
    return (2.0 / width) ** 0.5, (2.0 / width) ** 0.5


def _t5(width: int, head_dim: int) -> tuple[float, float]:
    # the projection to queries carries the 1/√head_dim that its scores are not given
    return (width * head_dim) ** -0.5, width**-0.5


INITS: Mapping[str, Callable[[int, int], tuple[float, float]]] = {
    "unit": _unit,
    "nn.Linear": _linear,
    "normal-0.02": _small,
    "xavier": _xavier,
    "xavier-packed": _packed,
    "kaiming": _kaiming,
    "t5": _t5,
    "mup": _unit,
}
"""Standard deviations of the weights to queries and to keys, by width and head_dim."""

COLORS = {"unit": 0, "nn.Linear": 1, "normal-0.02": 2, "xavier-packed": 4, "kaiming": 5, "t5": 6}
OTHERS = 3

INTENDED: Mapping[str, float] = {"t5": 0.0, "mup": -1.0}
"""Power of head_dim by which those multiply their scores; −1/2 for all the others."""


@dataclass(frozen=True, kw_only=True)
class Initialisation(Experiment):
    """Spread of the scores of one layer at common initialisations, with a scale and without.

    Tokens have entries of size 1, as after a normalisation. ``exact`` is the standard deviation
    over all weights and tokens; ``sample`` draws a layer and measures it. Names: ``unit`` gives
    entries of size 1, what the proof assumes; ``xavier-packed`` has the projections in one
    matrix; ``t5`` shrinks the query's weights by 1/√head_dim and multiplies scores by 1; ``mup``
    multiplies them by 1/head_dim.
    """

    name: ClassVar[str] = "initialisation"
    question: ClassVar[str] = "What spread do scores have at common initialisations?"
    order: ClassVar[int] = 80
    random: ClassVar[tuple[Method, ...]] = ("sample",)
    tiny: ClassVar[Mapping[str, object]] = {"widths": (16, 32), "head_dim": 8, "tokens": 8}
    columns: ClassVar[Mapping[str, str]] = {
        "init": "initialisation of the projections",
        "width": "entries of a token, d_model",
        "query_std": "standard deviation of the entries of queries",
        "key_std": "standard deviation of the entries of keys",
        "spread_raw": "standard deviation of the scores without a scale",
        "spread_scaled": "of the scores times 1/√head_dim",
        "spread_intended": "of the scores times what belongs to this initialisation",
        "*_standard_error": "standard error of the column named, over heads",
    }

    widths: tuple[int, ...] = parameter((128, 256, 512, 1024, 2048, 4096), "d_model", least=2)
    head_dim: int = parameter(64, "entries of a query and of a key", least=1)
    inits: tuple[str, ...] = parameter(tuple(INITS), "initialisations", choices=INITS)
    tokens: int = parameter(64, "queries, and as many keys, of a sample", least=2)
    heads: int = parameter(6, "heads drawn for a sample", least=2)

    def __post_init__(self) -> None:
        super().__post_init__()
        for width in self.widths:
            if width % self.head_dim:
                raise ArgumentError(f"width {width} is no multiple of head_dim, {self.head_dim}")

    @classmethod
    def methods(cls) -> tuple[Method, ...]:
        """Return the exact method first: it is the better one, and as fast."""
        return ("exact", "sample")

    def sample(self, context: Context) -> Records:
        """Draw tokens and weights of some heads, and measure the scores."""
        tasks = [
            {**self.settings(), "inits": (init,), "widths": (width,)}
            for init in self.inits for width in self.widths
        ]  # fmt: skip
        return sweep(_sampled, tasks, context)

    def exact(self, context: Context) -> Records:
        r"""Compute: entries have size √width σ, and scores √head_dim times both sizes."""
        del context
        for init in self.inits:
            for width in self.widths:
                query, key = (
                    round(math.sqrt(width) * std, 12) for std in INITS[init](width, self.head_dim)
                )
                yield self.row(init, width, query, key, math.sqrt(self.head_dim) * query * key)

    def row(self, init: str, width: int, query: float, key: float, spread: float) -> dict[str, Any]:
        """Return the row of one layer from the sizes of its entries and raw scores."""
        return {
            "init": init,
            "width": width,
            "query_std": query,
            "key_std": key,
            "spread_raw": spread,
            "spread_scaled": spread / math.sqrt(self.head_dim),
            "spread_intended": spread * self.head_dim ** INTENDED.get(init, -0.5),
        }

    def answer(self, table: Table) -> str:
        """Say how far the scaled spread lies from 1."""
        rows = list(table.where(width=self.widths[-1]))
        said = [f"{row['spread_intended']:.3g} with {row['init']}" for row in rows]
        low, high = min(table["spread_raw"]), max(table["spread_raw"])
        return (
            f"With the scale that belongs to it a layer of width {self.widths[-1]} has a spread of "
            f"{', '.join(said)}, and without any {low:.2g} to {high:.2g} over all widths: the "
            "square root takes out head_dim, and nothing else."
        )

    def sketch(self, table: Table) -> Sketch:
        """The spread against the width, without a scale and with the one that belongs there."""
        return Sketch(
            title=self.question,
            panels=(
                self._panel(table, "spread_raw", "without a scale"),
                self._panel(table, "spread_intended", "with the scale that belongs to it"),
            ),
        )

    def _panel(self, table: Table, column: str, title: str) -> Panel:
        merged: dict[tuple[float, ...], list[str]] = {}
        for init in self.inits:
            heights = table.where(init=init)[column]
            same = next((y for y in merged if np.allclose(y, heights, rtol=0.02)), heights)
            merged.setdefault(same, []).append(init)
        lines = [
            Line(
                label=" = ".join(together),
                x=self.widths,
                y=heights,
                color=COLORS.get(together[0], OTHERS),
            )
            for heights, together in merged.items()
        ]
        return Panel(
            title=title,
            x_label=f"d_model (head_dim {self.head_dim})",
            y_label="standard deviation of the scores",
            marks=(*lines, Level(label="", y=1.0)),
            x_log=2,
            y_log=10,
        )


def _sampled(rng: np.random.Generator, **parameters: Any) -> Records:
    """Yield the row of the one layer in these parameters, each head a layer of its own."""
    made = Initialisation(**parameters)
    (init,), (width,) = made.inits, made.widths
    sizes = INITS[init](width, made.head_dim)
    uniform = init in ("nn.Linear", "xavier", "xavier-packed")
    shape = (width, made.head_dim)
    found = []
    for _ in range(made.heads):
        token = rng.standard_normal((made.tokens, width))
        query, key = (
            np.einsum("tw,wd->td", token, _weights(rng, shape, size, uniform=uniform))
            for size in sizes
        )
        scores = np.einsum("qd,kd->qk", query, key)
        found.append((query.std(), key.std(), scores.std()))
    values = np.sqrt(np.mean(np.square(found), axis=0))
    error = np.std([spread for *_, spread in found], ddof=1) / math.sqrt(made.heads)
    row = made.row(init, width, *map(float, values))
    intended = row["spread_intended"] / row["spread_raw"]
    yield {
        **row,
        "spread_raw_standard_error": error,
        "spread_intended_standard_error": intended * error,
    }


def _weights(
    rng: np.random.Generator, shape: tuple[int, int], size: float, *, uniform: bool
) -> Floats:
    if uniform:
        bound = math.sqrt(3.0) * size
        return rng.uniform(-bound, bound, shape)
    return size * rng.standard_normal(shape)
