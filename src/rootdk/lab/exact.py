r"""Expectations of what a row of attention shows, computed: for normal entries, nothing is drawn.

Given its query, the scores of a row are independent normals around one common value, with
standard deviation :math:`\sigma = |c|\,\sigma_k \sqrt{1 - \rho^2}\,\lVert q \rVert`. A softmax does
not see the common value. What is left is the mean over ‖q‖, whose square is σ_q² times a
(noncentral) χ² with head_dim degrees of freedom, of expectations over independent normals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from rootdk._lib.errors import ArgumentError
from rootdk._lib.extras import require
from rootdk.lab._entries import Entries
from rootdk.lab._quadrature import Floats, lattice_sums
from rootdk.lab._row_law import QUANTITIES, row_expectations
from rootdk.lab._row_share import row_share

__all__ = ["SHARES", "Expectation", "NormalRows", "exact_spread", "stated"]

SHARES = (50, 90, 99)
"""Shares of a row, in per cent, that its largest weight is compared with."""

MOST_KEYS = 10**9
ROUNDING = 1e-12
NEGLIGIBLE = 1e-11
"""Part of the law of ‖q‖ left out at each end."""

_KURTOSIS = MappingProxyType({"normal": 3.0, "uniform": 1.8, "rademacher": 1.0})


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """An expectation and what it may be off by.

    Attributes
    ----------
    value : float
        The expectation.
    error : float
        Difference to the same integral from half the points: far more than its error.
    """

    value: float
    error: float


@dataclass(frozen=True, kw_only=True)
class NormalRows:
    """Rows of weights of normal queries and keys.

    Attributes
    ----------
    entries : Entries
        Their law, sizes, mean and correlation; the law has to be normal.
    head_dim : int
        Entries of a query and of a key.
    keys : int
        Keys of each query.
    scale : float
        What scores are multiplied by before the softmax.

    Examples
    --------
    >>> from rootdk.lab._entries import Entries, Law
    >>> entries = Entries(law=Law.read("normal"))
    >>> rows = NormalRows(entries=entries, head_dim=64, keys=12, scale=1 / 8)
    >>> round(rows["max_weight"].value, 6), round(rows["entropy_nats"].value, 6)
    (0.288778, 2.092182)
    """

    entries: Entries
    head_dim: int
    keys: int
    scale: float

    def __post_init__(self) -> None:
        if self.entries.law.name != "normal":
            raise ArgumentError.unexpected(
                "distribution", self.entries.law.name, "normal, for an exact answer"
            )
        if not 1 <= self.keys <= MOST_KEYS:
            raise ArgumentError.unexpected("keys", self.keys, f"1 to {MOST_KEYS}")

    @property
    def spread(self) -> float:
        """Standard deviation of all scaled scores."""
        return abs(self.scale) * exact_spread(self.entries, self.head_dim)

    def __getitem__(self, quantity: str) -> Expectation:
        """Return the expectation of one of ``QUANTITIES``."""
        return self._all[quantity]

    def over(self, share: float) -> Expectation:
        """Return the chance that the largest weight of a row exceeds a share, from 0.5 up."""
        found = np.array([row_share(share, spread, self.keys) for spread in self._spreads])
        (chance,) = self._mean(found[:, :, None])
        # a chance below what rounding leaves is no number to show
        return Expectation(value=round(chance.value, 12), error=chance.error)

    @cached_property
    def _all(self) -> dict[str, Expectation]:
        found = np.array([row_expectations(spread, self.keys) for spread in self._spreads])
        return dict(zip(QUANTITIES, self._mean(found), strict=True))

    def _mean(self, found: Floats) -> list[Expectation]:
        """Return the means over ‖q‖ of ``(lengths, 2, quantities)``."""
        weighted = found * self._lengths[1][:, None, None]
        fine, every_other = lattice_sums(weighted, 1.0)
        errors = np.abs(fine[1] - fine[0])
        if len(found) > 1:
            errors += np.abs(every_other[0] - fine[0])
        pairs = zip(fine[0], errors, strict=True)
        return [Expectation(value=float(value), error=float(error)) for value, error in pairs]

    def spread_at(self, chances: Floats) -> Floats:
        """Return the standard deviation within a row that so large a part of rows stay below."""
        if self.entries.query_std == 0.0:
            return np.full(len(chances), self._spreads[0])
        squares = _squared_length(self.entries, self.head_dim).ppf(chances)
        lengths: Floats = self.entries.query_std * np.sqrt(squares)
        return self._within * lengths

    @property
    def _within(self) -> float:
        """Standard deviation within a row, over the length of its query."""
        entries = self.entries
        return abs(self.scale) * entries.key_std * math.sqrt(1.0 - entries.correlation**2)

    @cached_property
    def _spreads(self) -> list[float]:
        return [self._within * float(length) for length in self._lengths[0]]

    @cached_property
    def _lengths(self) -> tuple[Floats, Floats]:
        return query_lengths(self.entries, self.head_dim)


def stated(*errors: float) -> float:
    """Return the power of ten that bounds all errors, and no less than rounding may be off by.

    Examples
    --------
    >>> stated(2e-7, 3e-9), stated(0.0)
    (1e-06, 1e-12)
    """
    return float(f"1e{math.ceil(math.log10(max(*errors, ROUNDING)))}")


def exact_spread(entries: Entries, head_dim: int) -> float:
    r"""Return the standard deviation of all scores before the scale, for any law of the entries.

    .. math:: d\left[(1 - \rho^2)\sigma_k^2(\sigma_q^2 + \mu^2) + \mu^2(\sigma_q + \rho\sigma_k)^2
        + 2\mu\rho\sigma_q\sigma_k(\sigma_q + \rho\sigma_k)\gamma_1
        + \rho^2\sigma_q^2\sigma_k^2(\gamma_2 - 1)\right]

    is its square, with the skewness γ₁ = 0 and the kurtosis γ₂ of the law. It is infinite for
    correlated entries of a law without a fourth moment.

    Examples
    --------
    >>> from rootdk.lab._entries import Entries, Law
    >>> exact_spread(Entries(law=Law.read("normal"), query_std=2.0, key_std=2.0), 16)
    16.0
    """
    query, key, mean, both = (
        entries.query_std,
        entries.key_std,
        entries.mean,
        entries.correlation,
    )
    within = (1.0 - both**2) * key**2 * (query**2 + mean**2)
    between = (mean * (query + both * key)) ** 2
    if both:
        between += (both * query * key) ** 2 * (_kurtosis(entries.law) - 1.0)
    return math.sqrt(head_dim * (within + between))


def _kurtosis(law: Any) -> float:
    if law.name == "student-t":
        return 3.0 + 6.0 / (law.freedom - 4.0) if law.freedom > 4.0 else math.inf
    return _KURTOSIS[law.name]


def query_lengths(entries: Entries, head_dim: int) -> tuple[Floats, Floats]:
    """Return lengths of queries with normal entries, and the weights of a mean over them.

    The lengths are even in the logarithm, where the law of a χ² falls off on both sides faster
    than any power, so that equal steps are as good as any quadrature.
    """
    if entries.query_std == 0.0:
        return np.array([abs(entries.mean) * math.sqrt(head_dim)]), np.ones(1)
    law = _squared_length(entries, head_dim)
    first, last = math.log(law.ppf(NEGLIGIBLE)), math.log(law.isf(NEGLIGIBLE))
    # 0.25 resolves the exponential of the right flank, the other a narrow normal
    step = min(0.25, (last - first) / 40.0)
    logs = np.arange(first, last + step, step)
    squares = np.exp(logs)
    return entries.query_std * np.sqrt(squares), step * law.pdf(squares) * squares


def _squared_length(entries: Entries, head_dim: int) -> Any:
    """Return the law of ‖q‖²/σ_q²."""
    stats = require("scipy.stats", extra="lab", purpose="for exact expectations")
    offset = head_dim * (entries.mean / entries.query_std) ** 2
    return stats.ncx2(head_dim, offset) if offset else stats.chi2(head_dim)
