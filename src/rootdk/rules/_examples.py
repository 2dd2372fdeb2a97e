"""Evidence for examples: a healthy site and healthy numbers, with named changes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from rootdk.records import (
    AttentionSite,
    Expected,
    Factor,
    Frame,
    OperandPath,
    Severity,
    Source,
)
from rootdk.rules._evidence import State

__all__ = [
    "Example",
    "Numbers",
    "constant",
    "fires",
    "healthy_site",
    "line",
    "numbers",
    "scaled_site",
    "silent",
    "skips",
    "through_norm",
]

Outcome = Literal["fires", "silent", "skipped"]

_NO_EVIDENCE: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Example:
    """One case of a rule: what it is given, and what it must say.

    ``severity`` and ``says`` (words of the message or of the excuse) are for what fires;
    ``line`` is the line of the source that it must name.
    """

    title: str
    outcome: Outcome
    evidence: Mapping[str, object] = field(default_factory=lambda: _NO_EVIDENCE)
    severity: Severity | None = None
    says: tuple[str, ...] = ()
    line: int | None = None


class Numbers:
    """Statistics of one site by name, one number a head; ``None`` marks an absent quantity."""

    def __init__(self, values: Mapping[str, float | Iterable[float] | None], heads: int) -> None:
        self._values = {
            name: np.broadcast_to(np.asarray(value, dtype=np.float64), (heads,))
            for name, value in values.items()
            if value is not None
        }

    @property
    def quantities(self) -> tuple[str, ...]:
        """The names of the quantities that are there."""
        return tuple(self._values)

    def __getitem__(self, name: str, /) -> npt.NDArray[np.float64]:
        """The quantity called ``name``, per head."""
        return self._values[name]

    def why_absent(self, name: str, /) -> str | None:
        """A reason for what is absent."""
        return None if name in self._values else "the example leaves it out"


_HEALTHY: Mapping[str, float] = MappingProxyType(
    {
        "query_std": 1.0,
        "key_std": 1.0,
        "value_std": 1.0,
        "query_mean": 0.0,
        "key_mean": 0.0,
        "query_rms": 1.0,
        "key_rms": 1.0,
        "input_rms": 1.0,
        "projection_gain": 1.0,
        "predicted_spread": 1.0,
        "implied_scale": 0.125,
        "spread": 1.0,
        "row_spread": 1.0,
        "min_score": -4.0,
        "max_score": 4.0,
        "nonfinite_scores": 0.0,
        "headroom": 8.5e37,
        "entropy_nats": 2.7,
        "entropy_share": 0.85,
        "max_weight": 0.2,
        "rows_over_50": 0.01,
        "rows_over_90": 0.0,
        "rows_over_99": 0.0,
        "first_key_weight": 0.04,
        "empty_rows": 0.0,
        "single_key_rows": 0.0,
        "jacobian_max": 0.16,
        "jacobian_trace": 0.9,
    }
)


def numbers(*, heads: int = 6, **changes: float | Iterable[float] | None) -> Numbers:
    """Return the statistics of a healthy site with some changed; ``None`` leaves one out."""
    return Numbers({**_HEALTHY, **changes}, heads)


def line(number: int) -> Source:
    """Return a place in an imagined model: ``model.py`` at that line."""
    frame = Frame(file="model.py", line=number, function="forward")
    return Source(frames=(frame,), module_path="blocks.0.attention")


def constant(value: float, place: str = "scores", at: int = 12, origin: str = "") -> Factor:
    """Return a constant factor at a line of the imagined model."""
    return Factor(value=value, place=place, origin=origin, source=line(at))  # type: ignore[arg-type]


def healthy_site(**changes: Any) -> AttentionSite:
    """Return a resolved site with nothing wrong, all its sizes different, with changes.

    The product stands at line 11 of the imagined model, the scale at 12, the softmax at 13.
    """
    site = AttentionSite(
        name="blocks.0.attention",
        spelling="matmul-softmax",
        batch=2,
        num_heads=6,
        num_kv_heads=3,
        queries=20,
        keys=24,
        head_dim=64,
        value_dim=48,
        hidden=384,
        layer=0,
        module_path="blocks.0.attention",
        source=line(13),
        product_source=line(11),
        factors=(constant(0.125),),
        effective_scale=0.125,
        query_path=OperandPath(terminal="projection"),
        key_path=OperandPath(terminal="projection"),
    )
    return replace(site, **changes)


def scaled_site(*factors: float | Factor, **changes: Any) -> AttentionSite:
    """Return a site with these factors, whose effective scale is the product of its constants.

    A plain number is a factor on the scores at line 12. Factors on the weights do not count.
    """
    whole = tuple(f if isinstance(f, Factor) else constant(f) for f in factors)
    values = [
        f.value
        for f in whole
        if f.value is not None and f.kind == "constant" and f.place != "weights"
    ]
    return healthy_site(factors=whole, effective_scale=math.prod(values), **changes)


def through_norm(*, gain: bool) -> dict[str, OperandPath]:
    """Return query and key paths that end in a norm, with or without a learned gain."""
    path = OperandPath(terminal="norm", normalised=True, learned_gain=gain)
    return {"query_path": path, "key_path": path}


def expecting(
    value: float | None, where: str, by: Literal["user", "config"] = "config"
) -> Expected:
    """Return a declared scale."""
    return Expected(value=value, where=where, by=by)


def _evidence(
    site: AttentionSite | None,
    summary: Numbers | None,
    state: State,
    more: Mapping[str, object],
) -> Mapping[str, object]:
    evidence: dict[str, object] = {"site": site or healthy_site(), "state": state, **more}
    if summary is not None:
        evidence["summary"] = summary
    return evidence


_NUMBERS = numbers()


def fires(
    title: str,
    severity: Severity,
    *,
    site: AttentionSite | None = None,
    summary: Numbers | None = _NUMBERS,
    state: State = "init",
    says: tuple[str, ...] = (),
    line: int | None = None,
    **more: object,
) -> Example:
    """Return an example that must fire once, so and there; ``summary=None`` for no numbers."""
    return Example(
        title=title,
        outcome="fires",
        evidence=_evidence(site, summary, state, more),
        severity=severity,
        says=says,
        line=line,
    )


def silent(
    title: str,
    *,
    site: AttentionSite | None = None,
    summary: Numbers | None = _NUMBERS,
    state: State = "init",
    **more: object,
) -> Example:
    """Return an example that must be judged and found good."""
    evidence = _evidence(site, summary, state, more)
    return Example(title=title, outcome="silent", evidence=evidence)


def skips(
    title: str,
    *,
    site: AttentionSite | None = None,
    summary: Numbers | None = _NUMBERS,
    state: State = "init",
    says: tuple[str, ...] = (),
    **more: object,
) -> Example:
    """Return an example that must be recorded as not judged, for a reason with these words."""
    evidence = _evidence(site, summary, state, more)
    return Example(title=title, outcome="skipped", evidence=evidence, says=says)
