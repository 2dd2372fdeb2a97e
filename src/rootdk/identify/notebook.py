"""Where probes write what they measured, and what they could not."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from rootdk.records import (
    Agreement,
    ArgumentFact,
    Behaviour,
    BiasFacts,
    CallFacts,
    GradientFacts,
    HeadFacts,
    MaskFacts,
    PrecisionFacts,
    Refusal,
    ScaleFacts,
    SoftcapFacts,
    SoftmaxFacts,
    Witness,
)

__all__ = ["GROUPS", "Notebook"]

GROUPS: dict[str, type] = {
    "call": CallFacts,
    "scale": ScaleFacts,
    "softcap": SoftcapFacts,
    "bias": BiasFacts,
    "softmax": SoftmaxFacts,
    "mask": MaskFacts,
    "heads": HeadFacts,
    "gradients": GradientFacts,
}
"""The groups of facts and the record that holds each."""


@dataclass
class Notebook:
    """Facts by dotted name (``"softmax.axis"``), and all that goes with them."""

    facts: dict[str, Any] = field(default_factory=dict)
    precision: dict[str, dict[str, Any]] = field(default_factory=dict)
    arguments: dict[str, ArgumentFact] = field(default_factory=dict)
    paths: list[Agreement] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    witnesses: dict[str, Witness] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    verified: Agreement | None = None
    deterministic: bool | None = None

    def write(self, **facts: Any) -> None:
        """Write facts; a double underscore stands for the dot: ``softmax__axis="keys"``."""
        self.facts.update({name.replace("__", "."): value for name, value in facts.items()})

    def get(self, name: str, default: Any = None) -> Any:
        """Return a fact by its dotted name."""
        value = self.facts.get(name)
        return default if value is None else value

    def behaviour(self, **more: Any) -> Behaviour:
        """Return everything as one record."""
        groups = {name: self._group(name, kind) for name, kind in GROUPS.items()}
        return Behaviour(
            **groups,
            precision={name: PrecisionFacts(**facts) for name, facts in self.precision.items()},
            arguments=dict(self.arguments),
            paths=tuple(self.paths),
            deterministic=self.deterministic,
            verified=self.verified,
            refusals=tuple(self.refusals),
            witnesses=dict(self.witnesses),
            **more,
        )

    def _group(self, name: str, kind: type) -> Any:
        start = name + "."
        found = {k[len(start) :]: v for k, v in self.facts.items() if k.startswith(start)}
        required = {
            f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING
        }
        return kind(**found) if found and required <= set(found) else None
