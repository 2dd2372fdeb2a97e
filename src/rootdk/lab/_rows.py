"""What rows of scores show: means over rows that merge, each with its standard error."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from rootdk.lab._entries import Floats

__all__ = ["PER_ROW", "Mean", "RowMeans", "rows_shown"]

PER_ROW = (
    "max_weight", "entropy_nats", "squared_weights",
    "jacobian_max", "jacobian_squared", "log_normaliser", "jacobian_norm",
)  # fmt: skip
"""Columns of ``rows_shown``: largest weight, entropy, Σw², w_max(1 − w_max), and the squared
Frobenius norm of diag(w) − w wᵀ, log Σ e^s, and the norm."""


def rows_shown(scores: Floats) -> Floats:
    """Return the quantities of ``PER_ROW``, ``(rows, quantities)``, of scaled scores.

    Examples
    --------
    >>> rows_shown(np.zeros((1, 4))).round(4).tolist()
    [[0.25, 1.3863, 0.25, 0.1875, 0.1875, 1.3863, 0.433]]
    """
    top = scores.max(axis=1, keepdims=True)
    below = scores - top
    weights = np.exp(below)
    total = weights.sum(axis=1)
    largest = 1.0 / total
    weighted = np.einsum("rk,rk->r", weights, below) * largest
    above_top = np.log(total)
    weights *= largest[:, None]
    squares = weights * weights
    second = squares.sum(axis=1)
    third = np.einsum("rk,rk->r", squares, weights)
    # the norm of a row with one weight of 1 rounds to a little below 0
    norm_squared = np.maximum(second - 2.0 * third + second * second, 0.0)
    others = 1.0 - largest
    columns = [largest, above_top - weighted, second, largest * others, norm_squared]
    return np.stack([*columns, above_top + top[:, 0], np.sqrt(norm_squared)], axis=1)


@dataclass(frozen=True, kw_only=True)
class Mean:
    """A mean over rows.

    Attributes
    ----------
    value : float
        The mean.
    standard_error : float
        Its standard error; NaN for a single row.
    """

    value: float
    standard_error: float

    def times(self, factor: float) -> Mean:
        """Return the mean in another unit."""
        return Mean(value=factor * self.value, standard_error=factor * self.standard_error)


@dataclass(frozen=True, kw_only=True)
class RowMeans:
    """Sums over rows, from which their means follow. Two merge by adding.

    Attributes
    ----------
    rows : int
        How many.
    shares : tuple of int
        Shares in per cent that the largest weight is compared with.
    first : array
        Sum over rows of the quantities, of whether each share is exceeded, and of the mean
        score and mean squared score of the row.
    second : array
        Sum over rows of their products, ``(columns, columns)``.
    """

    rows: int
    shares: tuple[int, ...]
    first: Floats
    second: Floats

    @classmethod
    def of(
        cls, scores: Iterable[Floats], scales: Sequence[float], shares: Sequence[int] = ()
    ) -> tuple[Self, ...]:
        """Return the sums over scores ``(rows, keys)`` times each scale, block by block."""
        found: tuple[Self, ...] = ()
        for block in scores:
            new = tuple(cls._block(block * scale, tuple(shares)) for scale in scales)
            found = tuple(map(cls.merge, found, new)) if found else new
        return found

    @classmethod
    def _block(cls, scores: Floats, shares: tuple[int, ...]) -> Self:
        shown = rows_shown(scores)
        over = [shown[:, 0] > share / 100.0 for share in shares]
        squares = np.einsum("rk,rk->r", scores, scores) / scores.shape[1]
        table = np.vstack([shown.T, *over, scores.mean(axis=1), squares])
        products = np.einsum("cr,dr->cd", table, table)
        return cls(rows=len(scores), shares=shares, first=table.sum(axis=1), second=products)

    def merge(self, other: Self) -> Self:
        """Return the sums over the rows of both."""
        return type(self)(
            rows=self.rows + other.rows,
            shares=self.shares,
            first=self.first + other.first,
            second=self.second + other.second,
        )

    def __getitem__(self, quantity: str) -> Mean:
        """Return the mean of one of ``PER_ROW``."""
        return self._combined({PER_ROW.index(quantity): 1.0})

    def over(self, share: int) -> Mean:
        """Return the part of rows whose largest weight exceeds a share in per cent."""
        return self._combined({len(PER_ROW) + self.shares.index(share): 1.0})

    @property
    def spread(self) -> Mean:
        """Standard deviation of all scores (ddof 0); its error by the delta method."""
        mean = self._combined({-2: 1.0}).value
        # the influence of a row on the variance is its mean of (s − mean)²
        around = self._combined({-1: 1.0, -2: -2.0 * mean})
        spread = math.sqrt(max(around.value + mean**2, 0.0))
        error = around.standard_error / (2.0 * spread) if spread else 0.0
        return Mean(value=spread, standard_error=error)

    def _combined(self, factors: dict[int, float]) -> Mean:
        along = np.zeros(len(self.first))
        for column, factor in factors.items():
            along[column] = factor
        mean = float(along @ self.first) / self.rows
        if self.rows == 1:
            return Mean(value=mean, standard_error=math.nan)
        squares = float(along @ self.second @ along) / self.rows
        variance = max(squares - mean**2, 0.0) / (self.rows - 1)
        return Mean(value=mean, standard_error=math.sqrt(variance))
