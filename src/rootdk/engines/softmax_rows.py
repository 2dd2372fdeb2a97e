"""A block of which only the softmax of each row is known, by a few numbers."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from rootdk.engines.finiterows import FiniteRows
from rootdk.stats.block import Block, Floats, Integers

Known = TypeVar("Known")


class UnknownNumberError(TypeError):
    """A statistic asked a block for what it does not know."""


def _unknown(name: str) -> property:
    def ask(_: object) -> Any:
        return _known(name, None)

    return property(ask, doc="Not known.")


def _known(name: str, value: Known | None) -> Known:
    if value is None:
        raise UnknownNumberError(f"{name} is not known of these rows")
    return value


class SoftmaxRows(FiniteRows, Block):
    """Entropy, normaliser and squared weights of rows whose scores are finite.

    Parameters
    ----------
    visible_keys : array, shape (num_heads, rows)
        Visible keys of each row.
    entropy : array, shape (num_heads, rows)
        As of every block.
    logsumexp : array, shape (num_heads, rows), or None
        The same, if it is known.
    log_sum_squares : array, shape (num_heads, rows), or None
        Logarithm of the sum of squared weights, if it is known.
    log_max_weight : array, shape (num_heads, rows), or None
        Logarithm of the largest weight, if it is known.
    extremes : tuple of two arrays, shape (num_heads, rows), or None
        The least and the greatest scaled score, if they are known.
    """

    def __init__(
        self,
        *,
        visible_keys: Integers,
        entropy: Floats,
        logsumexp: Floats | None,
        log_sum_squares: Floats | None,
        log_max_weight: Floats | None = None,
        extremes: tuple[Floats, Floats] | None = None,
    ) -> None:
        self._visible_keys = visible_keys
        self._entropy = entropy
        self._logsumexp = logsumexp
        self._log_sum_squares = log_sum_squares
        self._log_max_weight = log_max_weight
        self._extremes = extremes

    scores = _unknown("scores")
    visible = _unknown("visible")
    weights = _unknown("weights")
    score_mean = _unknown("score_mean")
    score_m2 = _unknown("score_m2")
    histogram = _unknown("histogram")
    jacobian_norm = _unknown("jacobian_norm")
    first_key_weight = _unknown("first_key_weight")
    priorities = _unknown("priorities")

    def sorted_weights(self, heads: Integers, rows: Integers, most: int) -> Floats:
        """Not known."""
        raise UnknownNumberError("weights are not known of these rows")

    @property
    def logsumexp(self) -> Floats:
        """Normaliser of each row."""
        return _known("logsumexp", self._logsumexp)

    @property
    def entropy(self) -> Floats:
        """Entropy of each row."""
        return self._entropy

    @property
    def _log_squares(self) -> Floats:
        return _known("sum_squares", self._log_sum_squares)

    @property
    def sum_squares(self) -> Floats:
        """Sum of squared weights of each row."""
        return np.exp(self._log_squares)

    @property
    def sum_squares_complement(self) -> Floats:
        """1 − the sum of squared weights of each row."""
        return np.asarray(-np.expm1(self._log_squares))

    @property
    def max_weight(self) -> Floats:
        """Largest weight of each row."""
        return np.exp(_known("max_weight", self._log_max_weight))

    @property
    def max_weight_complement(self) -> Floats:
        """1 − the largest weight of each row."""
        return np.asarray(-np.expm1(_known("max_weight_complement", self._log_max_weight)))

    @property
    def score_min(self) -> Floats:
        """Smallest score of each row."""
        return _known("score_min", self._extremes)[0]

    @property
    def score_max(self) -> Floats:
        """Largest score of each row."""
        return _known("score_max", self._extremes)[1]
