"""What a rule said, and what could not be said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

from rootdk.records.source import Source

__all__ = ["Finding", "Severity", "Skipped", "Unhandled"]


class Severity(StrEnum):
    """How bad: an error is wrong in any reading, a warning is unexplained, a note explains."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        """0 for an error, 1 for a warning, 2 for a note."""
        return ("error", "warning", "note").index(self.value)

    def reaches(self, bar: str) -> bool:
        """Whether this is at least as bad as ``bar`` (error, warning, note; ``never`` is false)."""
        return bar != "never" and self.rank <= Severity(bar).rank


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A true statement about one site: fact and numbers first, then what to do.

    ``evidence`` holds the numbers behind the message, by name. ``excuse`` says why a deviation
    is only a note. ``related`` are further places (the other factor of a doubled scale).
    """

    code: str
    name: str
    severity: Severity
    site: str
    message: str
    remedy: str
    source: Source | None = None
    excuse: str | None = None
    evidence: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    related: tuple[Source, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """A rule that could not be judged, at one site or (site None) anywhere, and why."""

    code: str
    why: str
    site: str | None = None


@dataclass(frozen=True, kw_only=True)
class Unhandled:
    """What the frontend saw and could not judge, how often it ran and where first.

    ``kind`` is ``operation`` for one that is not understood, and ``attention`` for what mixes
    values, or is normalised to do so, and is no softmax over query-key products: ``why`` says how.
    """

    operation: str
    count: int
    where: str
    why: str = ""
    kind: Literal["operation", "attention"] = "operation"
