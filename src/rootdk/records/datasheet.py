"""The answer of ``identify``: what one attention function really computes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rootdk._lib.errors import ArgumentError
from rootdk.records.behaviour import Behaviour
from rootdk.records.diagnosis import Environment, FindingsError
from rootdk.records.finding import Finding, Severity, Skipped
from rootdk.records.render import render_record, save_record
from rootdk.records.reproduction import Recipe, script

__all__ = ["Datasheet", "Difference", "Property"]


@dataclass(frozen=True, kw_only=True)
class Property:
    """One line of the table: what was measured, in words that stand for themselves.

    ``key`` is stable (``"scale"``, ``"causal"``, ``"mask.boolean"``), so that two datasheets
    can be laid side by side; ``label`` and ``value`` are for a person. ``note`` says what the
    value rests on. ``number`` is there when the property is one, for comparison by ``within``.
    """

    key: str
    label: str
    value: str
    note: str = ""
    number: float | None = None
    within: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A property in which two functions differ; an absent side was not measured."""

    key: str
    label: str
    one: str | None
    other: str | None


@dataclass(frozen=True, kw_only=True)
class Datasheet:
    """All that one identification found, errors first.

    ``function`` is the name as it was given, ``formula`` what it computes in one line (None if
    that could not be told), ``properties`` the table, ``behaviour`` every measured number.
    """

    function: str
    formula: str | None
    behaviour: Behaviour
    recipe: Recipe
    properties: tuple[Property, ...] = ()
    findings: tuple[Finding, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    differences: tuple[Difference, ...] | None = None
    against: str | None = None
    remarks: tuple[str, ...] = ()
    environment: Environment = field(default_factory=Environment)

    @property
    def worst(self) -> Severity | None:
        """The gravest severity among the findings; None when there are none."""
        return min((f.severity for f in self.findings), key=lambda s: s.rank, default=None)

    def count(self, severity: str) -> int:
        """How many findings have exactly this severity."""
        return sum(f.severity == severity for f in self.findings)

    def __getitem__(self, key: str) -> str:
        """The value of the property called ``key``, as it is printed.

        Raises
        ------
        KeyError
            If it was not measured; the message names those that were.
        """
        for one in self.properties:
            if one.key == key:
                return one.value
        known = ", ".join(one.key for one in self.properties)
        raise KeyError(f"{key!r} was not measured; there are {known}")

    def raise_for_findings(self, bar: str = "warning") -> None:
        """Raise ``FindingsError`` when a finding is at least as bad as ``bar``."""
        bad = [f for f in self.findings if f.severity.reaches(bar)]
        if bad:
            lines = "\n".join(f"{f.source or f.site}: {f.code} {f.message}" for f in bad)
            raise FindingsError(
                f"{self.function}: {len(bad)} finding(s) at or above {bar!r}\n{lines}"
            )

    def diff(self, other: Datasheet) -> tuple[Difference, ...]:
        """Return the properties in which this function and another differ.

        Numbers differ when they are further apart than both were measured to. What was measured
        of one only is a difference too, with None on the other side.
        """
        mine = {one.key: one for one in self.properties}
        theirs = {one.key: one for one in other.properties}
        found = []
        for key in dict.fromkeys([*mine, *theirs]):
            one, two = mine.get(key), theirs.get(key)
            if one is None or two is None or not _same(one, two):
                label = (one or two).label  # type: ignore[union-attr]
                found.append(
                    Difference(
                        key=key,
                        label=label,
                        one=one.value if one else None,
                        other=two.value if two else None,
                    )
                )
        return tuple(found)

    def reproduce(self, code: str) -> str:
        """Return a script that shows a finding on the smallest input found.

        It needs NumPy, the function, and the framework whose arrays the function takes; not
        rootdk. ``code`` is a finding's code or name, or a fact of the behaviour that has a
        witness (``"scale"``).

        Raises
        ------
        ArgumentError
            If there is no such finding, or nothing small shows it; the message says what there is.
        """
        fact = self._fact_of(code)
        witness = self.behaviour.witnesses.get(fact) if fact is not None else None
        if witness is None:
            known = sorted({f.code for f in self.findings} | set(self.behaviour.witnesses))
            raise ArgumentError(
                f"nothing to reproduce for {code!r} in the datasheet of {self.function}; "
                f"expected one of {', '.join(known) or 'nothing: no fact has a witness'}"
            )
        return script(self.recipe, witness, title=self._title(code, fact or code))

    def _fact_of(self, code: str) -> str | None:
        for finding in self.findings:
            if code.upper() == finding.code or code.lower() == finding.name:
                fact = finding.evidence.get("fact")
                return str(fact) if fact is not None else None
        return code if code in self.behaviour.witnesses else None

    def _title(self, code: str, fact: str) -> str:
        for finding in self.findings:
            if finding.evidence.get("fact") == fact and code.upper() == finding.code:
                return f"{finding.code} {finding.name}: {finding.message}"
        return f"{self.function}: {fact}"

    def save(self, path: str | Path) -> Path:
        """Write the datasheet; the suffix chooses the format (``.json``, ``.md``, ``.txt``)."""
        return save_record(self, path)

    def __str__(self) -> str:
        return render_record(self, "text")

    def __repr__(self) -> str:
        return (
            f"Datasheet({self.function!r}, formula={self.formula!r}, "
            f"errors={self.count('error')}, warnings={self.count('warning')}, "
            f"notes={self.count('note')})"
        )


def _same(one: Property, other: Property) -> bool:
    if one.number is not None and other.number is not None:
        return abs(one.number - other.number) <= one.within + other.within
    return one.value == other.value
