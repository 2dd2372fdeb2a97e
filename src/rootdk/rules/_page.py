"""A rule's docstring, taken apart: it is the documentation, the explanation and the help."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["SECTIONS", "Page", "page_of"]

SECTIONS = (
    "What it does",
    "Why it matters",
    "How it is measured",
    "Remedy",
    "When it stays silent",
    "References",
)

_HEADING = re.compile(r"^(?P<title>\S.*)\n-{3,}$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Page:
    """One rule's page: its first line, and the text under each heading.

    ``text`` is the whole, as written. ``remedy`` is the first paragraph under Remedy on one
    line: what a finding tells its reader to do.
    """

    summary: str
    sections: Mapping[str, str]
    text: str

    @property
    def remedy(self) -> str:
        """The first paragraph under Remedy, on one line."""
        return " ".join(self.sections.get("Remedy", "").split("\n\n")[0].split())


def page_of(kind: type) -> Page:
    """Return the page that a class's docstring holds.

    Examples
    --------
    >>> class Odd:
    ...     '''Seven is odd.
    ...
    ...     Remedy
    ...     ------
    ...     Take eight.
    ...     '''
    >>> page_of(Odd).summary, page_of(Odd).remedy
    ('Seven is odd.', 'Take eight.')
    """
    text = inspect.getdoc(kind) or ""
    parts = _HEADING.split(text)
    summary = parts[0].split("\n\n")[0]
    titles, bodies = parts[1::2], parts[2::2]
    sections = {title: body.strip() for title, body in zip(titles, bodies, strict=True)}
    return Page(summary=" ".join(summary.split()), sections=MappingProxyType(sections), text=text)
