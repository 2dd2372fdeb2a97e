"""What rules read: the numbers of a site as a protocol, and how to take one from it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from rootdk.records import AttentionSite, Source

__all__ = [
    "EVIDENCE",
    "NotJudged",
    "State",
    "Subject",
    "SummaryLike",
    "measured",
    "median_over_heads",
    "pooled_over_heads",
    "recomputed_output",
    "share_over_heads",
]

State = Literal["init", "trained"]

_FUSED = ("scaled_dot_product_attention", "multi_head_attention", "flex_attention")

EVIDENCE = ("site", "other_site", "summary", "state", "behaviour", "history")
"""The parameter names by which a judging method says what it reads."""


def recomputed_output(site: AttentionSite) -> bool:
    """Whether the site is a fused kernel whose output was recomputed and agreed.

    The recomputed rows sum to 1 and give nothing to hidden keys, so the kernel's do as well.
    """
    fused = site.spelling.startswith(_FUSED)
    return fused and site.resolved and site.verification.rows > 0


class Subject(Protocol):
    """What a finding is about: one site of a model, or one function."""

    @property
    def name(self) -> str:
        """What it is called in reports."""
        ...

    @property
    def source(self) -> Source | None:
        """Where it stands."""
        ...


class SummaryLike(Protocol):
    """The per-head statistics of one site, as far as rules need them.

    ``summary["row_spread"]`` is one number a head. A quantity that was not measured is not
    among ``quantities``, and ``why_absent`` says why.
    """

    @property
    def quantities(self) -> Iterable[str]:
        """The names of the quantities that can be had."""
        ...

    def __getitem__(self, name: str, /) -> Any:
        """The quantity called ``name``, per head."""
        ...

    def why_absent(self, name: str, /) -> str | None:
        """Why ``name`` is not among the quantities."""
        ...


class NotJudged(Exception):
    """Raised by a judging method that has what it reads and still cannot tell.

    Not an error: the third of three verdicts.

    Attributes
    ----------
    why : str
        The reason, as it is recorded.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def measured(summary: SummaryLike, name: str) -> npt.NDArray[np.float64]:
    """Return one quantity per head; NaN marks a head without a value.

    Raises
    ------
    NotJudged
        If the quantity is absent, or has no value at any head.
    """
    if name not in summary.quantities:
        why = summary.why_absent(name) or "it was not measured"
        raise NotJudged(f"{name} is not known: {why}")
    values = np.atleast_1d(np.asarray(summary[name], dtype=np.float64))
    if values.size == 0 or bool(np.all(np.isnan(values))):
        raise NotJudged(f"{name} has no value at any head")
    return values


def median_over_heads(summary: SummaryLike, name: str) -> float:
    """Return the median head's value of a quantity."""
    values = measured(summary, name)
    return float(np.median(values[~np.isnan(values)]))


def pooled_over_heads(summary: SummaryLike, name: str) -> float:
    """Return the root mean square of a quantity over heads, as for a standard deviation."""
    return float(np.sqrt(np.nanmean(np.square(measured(summary, name)))))


def share_over_heads(summary: SummaryLike, name: str) -> float:
    """Return the mean over heads of a share of rows."""
    return float(np.nanmean(measured(summary, name)))
