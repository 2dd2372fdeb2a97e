"""The answer of ``check``: sites, their statistics, and what the rules said of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rootdk._lib.errors import RootdkError
from rootdk.records.finding import Finding, Severity, Skipped, Unhandled
from rootdk.records.render import save_record
from rootdk.records.site import AttentionSite
from rootdk.stats import Summary

if TYPE_CHECKING:
    import pandas

__all__ = ["Diagnosis", "Environment", "FindingsError"]

State = Literal["init", "trained", "unknown"]


class FindingsError(RootdkError, AssertionError):
    """Raised by ``raise_for_findings``: the findings at or above the bar, one a line."""


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What the figures depend on: versions, device, dtype, modes, seed.

    The device is empty where nothing was run: the tensors were saved elsewhere. ``training`` is
    None where there is no such mode to read, as in JAX and in a file of ONNX.
    """

    versions: Mapping[str, str] = field(default_factory=dict)
    device: str = "cpu"
    dtype: str = "float32"
    training: bool | None = False
    autocast: str | None = None
    seed: int | None = None


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """All that one check found, errors first.

    ``summaries`` maps the name of a resolved site to its per-head statistics. ``state`` is
    ``init`` or ``trained`` (unknown is judged as trained); ``state_reason`` says from what.
    """

    target: str
    state: State
    state_reason: str
    sites: tuple[AttentionSite, ...] = ()
    summaries: Mapping[str, Summary] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    unhandled: tuple[Unhandled, ...] = ()
    remarks: tuple[str, ...] = ()
    environment: Environment = field(default_factory=Environment)

    @property
    def unresolved(self) -> tuple[AttentionSite, ...]:
        """The sites that were found and not understood; each says why."""
        return tuple(site for site in self.sites if not site.resolved)

    @property
    def worst(self) -> Severity | None:
        """The gravest severity among the findings; None when there are none."""
        return min((f.severity for f in self.findings), key=lambda s: s.rank, default=None)

    def count(self, severity: str) -> int:
        """How many findings have exactly this severity."""
        return sum(f.severity == severity for f in self.findings)

    def raise_for_findings(self, bar: str = "warning") -> None:
        """Raise ``FindingsError`` when a finding is at least as bad as ``bar``."""
        bad = [f for f in self.findings if f.severity.reaches(bar)]
        if bad:
            lines = "\n".join(f"{f.source or f.site}: {f.code} {f.message}" for f in bad)
            raise FindingsError(f"{len(bad)} finding(s) at or above {bar!r}\n{lines}")

    def to_frame(self) -> pandas.DataFrame:
        """One row a site and head: scale, ratio and every scalar quantity (needs ``lab``)."""
        from rootdk._lib.extras import require

        pd = require("pandas", extra="lab", purpose="Diagnosis.to_frame()")
        rows: list[dict[str, Any]] = []
        for site in self.sites:
            summary = self.summaries.get(site.name)
            for head in range(site.num_heads):
                row: dict[str, Any] = {
                    "site": site.name,
                    "head": head,
                    "effective_scale": site.effective_scale,
                    "scale_ratio": site.scale_ratio,
                }
                for name in summary.quantities if summary is not None else ():
                    values = summary[name] if summary is not None else None
                    if getattr(values, "ndim", None) == 1:
                        row[name] = float(values[head])  # type: ignore[index]
                rows.append(row)
        frame: pandas.DataFrame = pd.DataFrame(rows)
        return frame

    def save(self, path: str | Path) -> Path:
        """Write the diagnosis; the suffix chooses the format (``.json``, ``.txt``)."""
        return save_record(self, path)

    def __repr__(self) -> str:
        return (
            f"Diagnosis({self.target!r}, state={self.state!r}, sites={len(self.sites)}, "
            f"unresolved={len(self.unresolved)}, errors={self.count('error')}, "
            f"warnings={self.count('warning')}, notes={self.count('note')})"
        )
