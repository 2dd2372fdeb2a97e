"""What an engine hands to the statistics: some query rows of some heads, over every key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
"""Float64 values, on the host."""

Integers: TypeAlias = npt.NDArray[np.int64]
"""Int64 values, on the host."""

Booleans: TypeAlias = npt.NDArray[np.bool_]
"""Truth values, on the host."""

HISTOGRAM_BINS = 64
"""Number of bins of the histogram of standardised scores."""

HISTOGRAM_REACH = 8.0
"""The bins divide −reach to +reach evenly; what lies outside counts in the outermost bin."""


class Block(ABC):
    """Some query rows of some heads of one attention call, over every key.

    An engine computes the stages in its own way and precision, and reduces each row to
    single numbers; statistics reduce rows to heads. Members are computed when they are
    first asked for, so that a statistic pays only for what it reads.

    Members that describe rows are NumPy arrays of shape ``(num_heads, rows)``. *Scores*
    are at stage SCALED, ``scale · q·k``, and only visible and finite ones count. Everything
    from ``logsumexp`` on belongs to the final scores (softcapped, biased, masked) and is
    meaningless in rows that ``settled`` leaves out, so statistics select with ``settled``
    or ``plural`` first.

    A statistic that needs more than rows can read the stages themselves: ``scores``,
    ``visible`` and ``weights``, each ``(num_heads, rows, keys)``.
    """

    # -- the stages, as arrays of the engine's library

    @property
    @abstractmethod
    def scores(self) -> Any:
        """Scaled scores of shape ``(num_heads, rows, keys)``; anything where invisible."""

    @property
    @abstractmethod
    def visible(self) -> Any:
        """Which scores are visible, as booleans of shape ``(num_heads, rows, keys)``."""

    @property
    @abstractmethod
    def weights(self) -> Any:
        """Weights of shape ``(num_heads, rows, keys)``; 0 where invisible."""

    # -- which rows count

    @property
    @abstractmethod
    def visible_keys(self) -> Integers:
        """Visible keys of each row."""

    @property
    @abstractmethod
    def finite(self) -> Booleans:
        """Whether every visible final score of the row is finite."""

    @cached_property
    def settled(self) -> Booleans:
        """Rows with a visible key and no non-finite score: those whose softmax is defined."""
        return self.finite & (self.visible_keys > 0)

    @cached_property
    def plural(self) -> Booleans:
        """Settled rows with two or more visible keys: those whose softmax could be otherwise."""
        return self.finite & (self.visible_keys > 1)

    # -- visible, finite scaled scores

    @property
    @abstractmethod
    def finite_scores(self) -> Integers:
        """Number of visible scores of the row that are finite."""

    @property
    @abstractmethod
    def score_mean(self) -> Floats:
        """Mean of the row's scores; 0 where there is none."""

    @property
    @abstractmethod
    def score_m2(self) -> Floats:
        """Sum of squared deviations of the row's scores from their mean."""

    @property
    @abstractmethod
    def score_min(self) -> Floats:
        """Smallest score of the row; +∞ where there is none."""

    @property
    @abstractmethod
    def score_max(self) -> Floats:
        """Largest score of the row; −∞ where there is none."""

    @property
    @abstractmethod
    def histogram(self) -> Integers:
        """Standardised scores by bin, ``(num_heads, HISTOGRAM_BINS)``: see ScoreHistogram."""

    # -- softmax of the final scores

    @property
    @abstractmethod
    def logsumexp(self) -> Floats:
        """Natural logarithm of the sum of exp over the row's final scores."""

    @property
    @abstractmethod
    def entropy(self) -> Floats:
        """Entropy of the row's weights, in nats."""

    @property
    @abstractmethod
    def max_weight(self) -> Floats:
        """Largest weight of the row."""

    @property
    @abstractmethod
    def max_weight_complement(self) -> Floats:
        """1 − the largest weight, accurate however near to 0 it is."""

    @property
    @abstractmethod
    def sum_squares(self) -> Floats:
        """Sum of the squared weights."""

    @property
    @abstractmethod
    def sum_squares_complement(self) -> Floats:
        """1 − the sum of the squared weights, accurate however near to 0 it is."""

    @property
    @abstractmethod
    def jacobian_norm(self) -> Floats:
        """Frobenius norm of diag(w) − w wᵀ."""

    @property
    @abstractmethod
    def first_key_weight(self) -> Floats:
        """Weight of key 0; 0 where it is invisible."""

    # -- single rows

    @property
    @abstractmethod
    def priorities(self) -> Integers:
        """A pseudo-random number from 0 to 2⁶³ − 2, from what the row is and not where.

        It depends on the values of the row's query and on the number of its visible keys,
        so that the rows with the smallest numbers are the same in whatever order and
        company, and on whichever engine, they are measured.
        """

    @abstractmethod
    def sorted_weights(self, heads: Integers, rows: Integers, most: int) -> Floats:
        """Return the largest weights of some rows, ``(rows, most)``, largest first.

        Each row is given by its head and its number; heads ascend, and the rows of each. Where
        a row has fewer visible keys, NaN follows their weights.
        """


def total(values: npt.NDArray[Any], where: Booleans) -> Floats:
    """Sum ``(num_heads, rows)`` values over the selected rows, in float64.

    Examples
    --------
    >>> total(np.asarray([[1.0, 2.0, np.nan]]), np.asarray([[True, True, False]]))
    array([3.])
    """
    kept = values if where.all() else np.where(where, values, 0)
    return np.asarray(np.sum(kept, axis=1, dtype=np.float64))


def count(where: Booleans) -> Integers:
    """Count the selected rows of each head.

    Examples
    --------
    >>> count(np.asarray([[True, True, False]]))
    array([2])
    """
    return np.asarray(np.sum(where, axis=1, dtype=np.int64))
