"""What a rule is: a code, a page, judging methods that say what they read, and examples."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property
from types import MappingProxyType
from typing import ClassVar, NoReturn

from rootdk.records import Finding, Severity, Source
from rootdk.rules._evidence import EVIDENCE, NotJudged, Subject
from rootdk.rules._examples import Example
from rootdk.rules._page import Page, page_of

__all__ = ["FAMILIES", "Findings", "Judging", "Rule"]

FAMILIES = ("scale", "entries", "softmax", "mask", "heads", "health", "behaviour")
"""The families in order: the first is the hundred, the second the two hundreds, and so on."""

Findings = Iterator[Finding]
Judging = Callable[..., Iterable[Finding]]


class Rule(ABC):
    """One fault, its page and how it is told from everything that looks like it.

    A subclass writes one or more *judging methods*: methods whose name starts with ``judge``
    and whose parameters name what they read (``site``, ``other_site``, ``summary``, ``state``,
    ``behaviour``, ``history``). A parameter with a default is optional. Each yields findings
    made by :meth:`finding`, yields none to stay silent, or calls :meth:`skip` when it has what
    it reads and still cannot tell.

    Attributes
    ----------
    code : str
        ``"RDK"`` and three digits, the first the family's. For ever.
    name : str
        The fault in words, never the remedy: ``"missing-scale"``.
    since : str
        The first version that has the rule.
    severities : tuple of Severity
        Every severity that a finding of this rule can have.
    supersedes : tuple of str
        Codes whose findings at the same site are consequences of this one's, and are dropped.
    supersedes_when : tuple of Severity
        The severities of this rule's finding for which that holds.
    needs_resolved : bool
        Whether a site must be resolved to be judged. False only for what stays true when the
        rest of the site was not understood.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    since: ClassVar[str]
    severities: ClassVar[tuple[Severity, ...]]
    supersedes: ClassVar[tuple[str, ...]] = ()
    supersedes_when: ClassVar[tuple[Severity, ...]] = tuple(Severity)
    needs_resolved: ClassVar[bool] = True

    @abstractmethod
    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not, for each kind of evidence that is read."""

    @property
    def family(self) -> str:
        """The family that the hundred of the code names."""
        return FAMILIES[int(self.code[3]) - 1]

    @property
    def order(self) -> int:
        """Where findings of this rule stand among others of the same severity."""
        return int(self.code[3:]) * 10

    @cached_property
    def page(self) -> Page:
        """The documentation, which is the docstring."""
        return page_of(type(self))

    @property
    def judging(self) -> Mapping[str, Judging]:
        """The judging methods by name."""
        return {name: getattr(self, name) for name in _judging_names(type(self))}

    def finding(
        self,
        site: Subject,
        severity: Severity,
        message: str,
        *,
        source: Source | None = None,
        remedy: str | None = None,
        excuse: str | None = None,
        evidence: Mapping[str, object] | None = None,
        related: tuple[Source, ...] = (),
    ) -> Finding:
        """Return a finding at a site or of a function; the remedy is the page's unless given."""
        if severity not in self.severities:
            raise ValueError(
                f"{self.code} found with severity {severity.value}; "
                f"expected one of {', '.join(s.value for s in self.severities)}"
            )
        return Finding(
            code=self.code,
            name=self.name,
            severity=severity,
            site=site.name,
            message=message,
            remedy=self.page.remedy if remedy is None else remedy,
            source=source or site.source,
            excuse=excuse,
            evidence=MappingProxyType(dict(evidence or {})),
            related=related,
        )

    def skip(self, why: str) -> NoReturn:
        """End the judging method: it cannot tell, and this is why."""
        raise NotJudged(why)

    def __repr__(self) -> str:
        return f"<{self.code} {self.name}>"


@cache
def _judging_names(kind: type[Rule]) -> tuple[str, ...]:
    return tuple(name for name in dir(kind) if name.startswith("judge"))


@cache
def reads(method: Judging) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names that a judging method needs, and those that it takes if there are any.

    Raises
    ------
    TypeError
        If a parameter is not one of the kinds of evidence.
    """
    parameters = inspect.signature(method).parameters.values()
    unknown = [p.name for p in parameters if p.name not in EVIDENCE]
    if unknown:
        raise TypeError(
            f"{method.__qualname__} reads {', '.join(unknown)}; expected only {', '.join(EVIDENCE)}"
        )
    needed = tuple(p.name for p in parameters if p.default is p.empty)
    optional = tuple(p.name for p in parameters if p.default is not p.empty)
    return needed, optional
