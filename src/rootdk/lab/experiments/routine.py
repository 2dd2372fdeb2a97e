"""The diagnosis routine: one spread, one question, and what it takes to answer it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rootdk.diagnose import diagnose
from rootdk.lab._base import Context, Experiment, Method, Records
from rootdk.lab._layer import (
    INITS,
    TORCH_GENERATOR,
    Attend,
    checked,
    layer,
    measured,
    tokens,
)
from rootdk.lab._mistakes import right, twice, unscaled, width_scaled
from rootdk.lab._parameters import parameter
from rootdk.lab._sketch import Level, Line, Panel, Sketch
from rootdk.lab._table import Table

__all__ = ["Routine"]

# What a layer really does, and the codes that say so. 1/d and twice 1/√d are one number: no
# spread can tell them apart, so either is right.
TRUTHS: Mapping[str, tuple[Attend, frozenset[str]]] = {
    "as it should be": (right, frozenset({"none", "RDK201", "RDK202"})),
    "missing": (unscaled, frozenset({"RDK101"})),
    "twice": (twice, frozenset({"RDK102", "RDK104"})),
    "model width": (width_scaled, frozenset({"RDK103"})),
}
NUMBERS = "numbers"


@dataclass(frozen=True, kw_only=True)
class Routine(Experiment):
    """Measure the spread of the scores at initialisation, and say what is wrong.

    First on numbers: the spread that each mistake would give with entries of size 1. Then on
    layers at common initialisations, where it is measured: judged by the spread alone, then
    with the measured sizes of the entries, then by ``rootdk.check``, which reads the graph.
    A judgement is right if it names what the layer does; for a layer with the right scale,
    remarks on the size of its entries are right too.
    """

    name: ClassVar[str] = "routine"
    question: ClassVar[str] = "Does the spread of the scores say which scale a layer uses?"
    order: ClassVar[int] = 110
    tiny: ClassVar[Mapping[str, object]] = {
        "head_dim": 16,
        "num_heads": 2,
        "length": 12,
        "inits": ("unit", "linear"),
    }
    random: ClassVar[tuple[Method, ...]] = ("sample",)
    generator: ClassVar[str] = TORCH_GENERATOR
    needs: ClassVar[tuple[str, ...]] = ("torch",)
    packages: ClassVar[tuple[str, ...]] = ("numpy", "torch")
    columns: ClassVar[Mapping[str, str]] = {
        "entries": "numbers, or the initialisation of a layer",
        "scale": "what is done to the scores",
        "spread": "standard deviation of the scores before softmax, mean over heads",
        "query_std": "standard deviation of the query entries; none for numbers",
        "key_std": "the same of the keys",
        "corrected_spread": "the spread over query_std·key_std",
        "by_spread": "code of the best explanation of the spread alone; none if all is well",
        "by_spread_and_entries": "the same with the sizes of the entries",
        "by_check": "code of the first finding of check",
        "right_by_spread": "whether the code is true",
        "right_by_spread_and_entries": "whether the code is true",
        "right_by_check": "whether the code is true",
    }

    head_dim: int = parameter(64, "entries of a query and of a key", least=2)
    num_heads: int = parameter(8, "heads of the layer", least=2)
    length: int = parameter(64, "tokens of the input", least=4)
    inits: tuple[str, ...] = parameter(INITS, "initialisations of the layers", choices=INITS)

    def sample(self, context: Context) -> Records:
        """Judge numbers, then layers."""
        yield from self._numbers()
        for done, init in enumerate(self.inits):
            context.progress(done, len(self.inits), init)
            yield from self._layers(init, context.seed)

    def _numbers(self) -> Iterator[dict[str, object]]:
        root = math.sqrt(self.head_dim)
        spreads = (1.0, root, 1.0 / root, 1.0 / math.sqrt(self.num_heads))
        for scale, spread in zip(TRUTHS, spreads, strict=True):
            yield self._row(NUMBERS, scale, spread)

    def _layers(self, init: str, seed: int) -> Iterator[dict[str, object]]:
        width = self.head_dim * self.num_heads
        x = tokens(batch=1, length=self.length, width=width, seed=seed + 1)
        for scale, (attend, _) in TRUTHS.items():
            model = layer(attend, width=width, num_heads=self.num_heads, init=init, seed=seed)
            diagnosis = checked(model, x, state="init")
            found = [finding.code for finding in diagnosis.findings]
            yield {
                **self._row(
                    init,
                    scale,
                    measured(diagnosis, "spread"),
                    query_std=measured(diagnosis, "query_std"),
                    key_std=measured(diagnosis, "key_std"),
                ),
                **_judged("check", scale, found[0] if found else "none"),
            }

    def _row(self, entries: str, scale: str, spread: float, **sizes: float) -> dict[str, object]:
        known: dict[str, Any] = {"head_dim": self.head_dim, "num_heads": self.num_heads}
        alone = diagnose(spread=spread, **known).best.code
        size = math.prod(sizes.values())
        row = {
            "entries": entries,
            "scale": scale,
            "spread": spread,
            "query_std": sizes.get("query_std"),
            "key_std": sizes.get("key_std"),
            "corrected_spread": spread / size,
            **_judged("spread", scale, alone or "none"),
        }
        if not sizes:
            return row
        both = diagnose(spread=spread, **(known | sizes)).best.code
        return {**row, **_judged("spread_and_entries", scale, both or "none")}

    def answer(self, table: Table) -> str:
        """Count who is right on the layers."""
        layers = [row for row in table if row["entries"] != NUMBERS]
        counted = {
            by: sum(bool(row[f"right_by_{by}"]) for row in layers)
            for by in ("spread", "spread_and_entries", "check")
        }
        alone, both = counted["spread"], counted["spread_and_entries"]
        lead = "Yes" if alone == len(layers) else "Not alone" if both > alone else "No"
        return (
            f"{lead}: of {len(layers)} layers the spread alone names what is done to the scores "
            f"in {alone}, with the standard deviations of query and key in {both}, and check, "
            f"which reads the operations, in {counted['check']}."
        )

    def sketch(self, table: Table) -> Sketch:
        """The measured spread of each layer, and the same after the correction."""
        places = tuple(float(place) for place in range(len(self.inits)))
        panels = []
        for column, title in (
            ("spread", "spread as measured"),
            ("corrected_spread", "over query_std·key_std"),
        ):
            marks = []
            for color, scale in enumerate(TRUTHS):
                rows = [row for row in table.where(scale=scale) if row["entries"] != NUMBERS]
                heights = tuple(row[column] for row in rows)
                marks.append(Line(label=scale, x=places, y=heights, color=color))
            panels.append(
                Panel(
                    title=title,
                    x_label="initialisation of the layer",
                    y_label="standard deviation of the scores",
                    ticks=self.inits,
                    marks=(*marks, Level(label="", y=1.0)),
                    y_log=10,
                )
            )
        return Sketch(title=self.question, panels=tuple(panels))


def _judged(by: str, scale: str, code: str) -> dict[str, object]:
    _, truths = TRUTHS[scale]
    return {f"by_{by}": code, f"right_by_{by}": code in truths}
