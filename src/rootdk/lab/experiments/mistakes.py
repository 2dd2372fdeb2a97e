"""Each mistake that the lab knows of, planted in a layer, measured, and named by ``check``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from rootdk.lab._base import Context, Experiment, Method, Records
from rootdk.lab._layer import TORCH_GENERATOR, Attend, checked, layer, measured, tokens
from rootdk.lab._mistakes import MISTAKES, Mistake
from rootdk.lab._parameters import parameter
from rootdk.lab._sketch import Bars, Level, Panel, Sketch
from rootdk.lab._table import Table
from rootdk.records import Diagnosis, Finding

__all__ = ["Mistakes"]

SEEDS_BETWEEN = 1000
"""From the seed of one mistake to that of the next, so that no two have the same numbers."""


@dataclass(frozen=True, kw_only=True)
class Mistakes(Experiment):
    """What each mistake does to spread, entropy and gradient, and whether it can be seen.

    A code is what ``rootdk.check`` reports of the layer with the mistake in it. Two of the
    mistakes are made in reading numbers and not in code, and no tool can see those in a layer.
    ``rootdk.identify``, if it is asked too, sees the function of query, key and value alone.
    """

    name: ClassVar[str] = "mistakes"
    question: ClassVar[str] = "What does each mistake do to the numbers, and what names it?"
    order: ClassVar[int] = 100
    tiny: ClassVar[Mapping[str, object]] = {"head_dim": 16, "num_heads": 2, "length": 12}
    random: ClassVar[tuple[Method, ...]] = ("sample",)
    generator: ClassVar[str] = TORCH_GENERATOR
    needs: ClassVar[tuple[str, ...]] = ("torch",)
    packages: ClassVar[tuple[str, ...]] = ("numpy", "torch")
    columns: ClassVar[Mapping[str, str]] = {
        "mistake": "what went wrong, in words",
        "computed": "what the layer computes",
        "spread": "standard deviation of the scores before softmax, mean over heads",
        "entropy": "entropy of a row in nats, mean over rows and heads",
        "gradient": "largest entry of a row's Jacobian, mean over rows and heads",
        "code": "code of the first finding of check; none where it reports nothing",
        "finding": "its name",
        "severity": "error, warning or note",
        "other_codes": "codes of further findings",
        "identify_code": "code of the first error or warning of identify; none without one",
    }

    head_dim: int = parameter(64, "entries of a query and of a key", least=2)
    num_heads: int = parameter(8, "heads of the layer", least=2)
    length: int = parameter(24, "tokens of an input", least=4)
    batch: int = parameter(2, "inputs", least=1)
    identify: bool = parameter(False, "whether identify is asked too; takes half a minute")

    def sample(self, context: Context) -> Records:
        """Plant each mistake in a layer of its own, and check the layer."""
        for place, mistake in enumerate(MISTAKES):
            context.progress(place, len(MISTAKES), mistake.name)
            diagnosis = self._diagnosis(mistake, context.seed + SEEDS_BETWEEN * place)
            row = {**_said(mistake, diagnosis), **_named(diagnosis.findings)}
            yield {**row, **(_identified(mistake.attend) if self.identify else {})}

    def _diagnosis(self, mistake: Mistake, seed: int) -> Diagnosis:
        width = self.head_dim * self.num_heads
        model = layer(
            mistake.attend,
            width=width,
            num_heads=self.num_heads,
            init="unit",
            seed=seed,
            gain=mistake.gain,
            tied=mistake.tied,
        )
        x = tokens(
            batch=self.batch,
            length=self.length,
            width=width,
            seed=seed + 1,
            directions=mistake.directions,
        )
        return checked(model, x, state=mistake.state)

    def answer(self, table: Table) -> str:
        """Say how many are named, and which are not."""
        silent = [row["mistake"] for row in table if row["code"] is None]
        unnamed = f"; it is silent on: {'; '.join(silent)}" if silent else ""
        identified = ""
        if "identify_code" in table:
            count = len(table) - table["identify_code"].count(None)
            identified = f"; identify, which sees the function alone, in {count}"
        return (
            f"check reports something in {len(table) - len(silent)} of the {len(table)} "
            f"layers{unnamed}{identified}."
        )

    def sketch(self, table: Table) -> Sketch:
        """The spread and the gradient of each, by its name and the code that it gets."""
        heights = {
            column: tuple(default if value is None else value for value in table[column])
            for column, default in (("spread", 1.0), ("gradient", 0.0))
        }
        return Sketch(
            title=self.question,
            panels=(
                Panel(
                    title="spread of the scores",
                    x_label="",
                    y_label="standard deviation of the scores",
                    ticks=tuple(name.partition(" (")[0] for name in table["mistake"]),
                    marks=(
                        Bars.labelled(heights["spread"], digits=2, base=1.0),
                        Level(label="as it should be", y=1.0),
                    ),
                    y_log=10,
                    lying=True,
                ),
                Panel(
                    title="gradient that passes through softmax",
                    x_label="first finding of check",
                    y_label="largest Jacobian entry",
                    ticks=tuple(code or "no finding" for code in table["code"]),
                    marks=(
                        Bars.labelled(heights["gradient"], digits=3),
                        Level(label="bound 1/4", y=0.25),
                    ),
                    lying=True,
                ),
            ),
        )


def _said(mistake: Mistake, diagnosis: Diagnosis) -> dict[str, object]:
    return {
        "mistake": mistake.name,
        "computed": mistake.computed,
        "spread": measured(diagnosis, "spread"),
        "entropy": measured(diagnosis, "entropy_nats"),
        "gradient": measured(diagnosis, "jacobian_max"),
    }


def _named(findings: Sequence[Finding]) -> dict[str, object]:
    """Return the first finding, and the codes of the others."""
    first, others = findings[:1], findings[1:]
    return {
        "code": first[0].code if first else None,
        "finding": first[0].name if first else None,
        "severity": first[0].severity.value if first else None,
        "other_codes": tuple(dict.fromkeys(finding.code for finding in others)),
    }


@cache
def _identified(attend: Attend) -> dict[str, object]:
    """Return what identify reports of a function; several mistakes share one."""
    from rootdk.identify import identify

    findings = identify(attend).findings
    grave = [finding.code for finding in findings if finding.severity.reaches("warning")]
    return {"identify_code": grave[0] if grave else None}
