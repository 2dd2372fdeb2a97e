"""The variance of a score, measured on random vectors."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rootdk.lab._base import Context, Experiment, Method, Records
from rootdk.lab._entries import EXPECTED, Entries, Floats, Law, check_law
from rootdk.lab._parameters import parameter
from rootdk.lab._scales import check_scale, pretty, scale_of
from rootdk.lab._sketch import Level, Line, Panel, Sketch
from rootdk.lab._sweep import sweep
from rootdk.lab._table import Table
from rootdk.lab.sampler import draw_scores

__all__ = ["VarianceSampled"]

ENTRIES_AT_ONCE = 1 << 20
"""Of queries or keys held in memory."""


@dataclass(frozen=True, kw_only=True)
class VarianceSampled(Experiment):
    """Dot products of independent vectors: their variance is head_dim, and 1 over √head_dim."""

    name: ClassVar[str] = "variance-sampled"
    question: ClassVar[str] = "How does the variance of a score grow with the width of a head?"
    order: ClassVar[int] = 30
    tiny: ClassVar[Mapping[str, object]] = {"widths": (4, 8), "pairs": 50}
    random: ClassVar[tuple[Method, ...]] = ("replay", "sample")
    columns: ClassVar[Mapping[str, str]] = {
        "head_dim": "entries of a query and of a key",
        "variance_raw": "variance of the scores (ddof 0)",
        "variance_scaled": "variance of the scores after the scale",
        "score_std": "standard deviation of the scores before the scale",
        "standard_error_raw": "of variance_raw, from the fourth moment of the scores",
    }

    widths: tuple[int, ...] = parameter((4, 16, 64, 256, 1024), "head_dim of each row", least=1)
    pairs: int = parameter(20_000, "pairs of a query and a key per width", least=2)
    distribution: str = parameter("normal", f"law of the entries: {EXPECTED}", check=check_law)
    query_std: float = parameter(1.0, "standard deviation of query entries", least=0.0)
    key_std: float = parameter(1.0, "standard deviation of key entries", least=0.0)
    scale: str = parameter("1/sqrt(d)", "rule for the scaled column", check=check_scale)

    def replay(self, context: Context) -> Records:
        """Draw all queries of a width, then all its keys, from one generator."""
        rng = np.random.default_rng(context.seed)
        for done, width in enumerate(self.widths):
            context.progress(done, len(self.widths), f"head_dim {width}")
            yield self.row(width, np.concatenate(list(self._scores(rng, width))))

    def sample(self, context: Context) -> Records:
        """Draw scores in place of keys, where the law of the entries allows it."""
        tasks = [{**self.settings(), "widths": (width,)} for width in self.widths]
        return sweep(_sampled, tasks, context)

    def _scores(self, rng: np.random.Generator, width: int) -> Iterator[Floats]:
        """Yield the scores, a block at a time.

        The keys come after all the queries. So that neither need be held, a copy of the
        generator draws the queries again while the generator itself draws the keys.
        """
        law, behind = Law.read(self.distribution), copy.deepcopy(rng)
        at_once = max(ENTRIES_AT_ONCE // width, 1)
        blocks = [min(at_once, self.pairs - start) for start in range(0, self.pairs, at_once)]
        for rows in blocks:
            law.draw(rng, (rows, width))
        for rows in blocks:
            query = self.query_std * law.draw(behind, (rows, width))
            key = self.key_std * law.draw(rng, (rows, width))
            yield np.einsum("pd,pd->p", query, key)

    def row(self, width: int, scores: Floats) -> dict[str, object]:
        """Return the row of a width from its scores, ``(pairs,)``, before the scale."""
        scale = scale_of(self.scale, head_dim=width, keys=1)
        variance = scores.var()
        fourth = np.mean((scores - scores.mean()) ** 4)
        return {
            "head_dim": width,
            "variance_raw": variance,
            "variance_scaled": np.var(scores * scale),
            "score_std": scores.std(),
            "standard_error_raw": np.sqrt(max(fourth - variance**2, 0.0) / len(scores)),
        }

    def answer(self, table: Table) -> str:
        """Say what the last width gives."""
        last = list(table)[-1]
        size = self.query_std**2 * self.key_std**2
        expected = size * last["head_dim"]
        return (
            f"In proportion to it: at head_dim {last['head_dim']} the variance is "
            f"{last['variance_raw']:.5g} ± {last['standard_error_raw']:.2g}, where "
            f"{expected:g} is expected, and {last['variance_scaled']:.3f} when the scores are "
            f"multiplied by {pretty(self.scale)}."
        )

    def sketch(self, table: Table) -> Sketch:
        """Raw and scaled variance on one pair of logarithmic axes."""
        x = table["head_dim"]
        size = self.query_std**2 * self.key_std**2
        scaled = f"× {pretty(self.scale)}"
        return Sketch(
            title=self.question,
            across=1,
            panels=(
                Panel(
                    title=f"variance of {self.pairs} scores",
                    x_label="head_dim",
                    y_label="variance",
                    marks=(
                        Line(label="raw", x=x, y=table["variance_raw"], color=1),
                        Line(label=scaled, x=x, y=table["variance_scaled"], color=0),
                        *([Level(label="", y=size)] if size > 0.0 else []),
                    ),
                    x_log=2,
                    y_log=2,
                ),
            ),
        )


def _sampled(rng: np.random.Generator, **parameters: Any) -> Records:
    """Yield the row of the one width in these parameters, from scores drawn for it."""
    made = VarianceSampled(**parameters)
    (width,) = made.widths
    law = Law.read(made.distribution)
    entries = Entries(law=law, query_std=made.query_std, key_std=made.key_std)
    blocks = draw_scores(rng, entries, head_dim=width, queries=made.pairs, keys=1)
    yield made.row(width, np.concatenate([block[:, 0] for block in blocks]))
