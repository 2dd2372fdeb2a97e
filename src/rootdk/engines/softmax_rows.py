"""A block of which only the softmax of each row is known, by a few numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from rootdk.engines.finiterows import FiniteRows
from rootdk.stats.block import Block, Floats, Integers


class UnknownNumberError(TypeError):
    """A statistic asked a block for what it does not know."""


def _unknown(name: str) -> property:
    def ask(_: object) -> Any:
        raise UnknownNumberError(f"{name} is not known of these rows")

    return property(ask, doc="Not known.")


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
    """

    def __init__(
        self,
        *,
        visible_keys: Integers,
        entropy: Floats,
        logsumexp: Floats | None,
        log_sum_squares: Floats | None,
    ) -> None:
        self._visible_keys = visible_keys
        self._entropy = entropy
        self._logsumexp = logsumexp
        self._log_sum_squares = log_sum_squares

    scores = _unknown("scores")
    visible = _unknown("visible")
    weights = _unknown("weights")
    score_mean = _unknown("score_mean")
    score_m2 = _unknown("score_m2")
    score_min = _unknown("score_min")
    score_max = _unknown("score_max")
    histogram = _unknown("histogram")
    max_weight = _unknown("max_weight")
    max_weight_complement = _unknown("max_weight_complement")
    jacobian_norm = _unknown("jacobian_norm")
    first_key_weight = _unknown("first_key_weight")
    priorities = _unknown("priorities")

    def sorted_weights(self, heads: Integers, rows: Integers, most: int) -> Floats:
        """Not known."""
        raise UnknownNumberError("weights are not known of these rows")

    @property
    def logsumexp(self) -> Floats:
        """Normaliser of each row."""
        if self._logsumexp is None:
            raise UnknownNumberError("logsumexp is not known of these rows")
        return self._logsumexp

    @property
    def entropy(self) -> Floats:
        """Entropy of each row."""
        return self._entropy

    @property
    def _log_squares(self) -> Floats:
        if self._log_sum_squares is None:
            raise UnknownNumberError("sum_squares is not known of these rows")
        return self._log_sum_squares

    @property
    def sum_squares(self) -> Floats:
        """Sum of squared weights of each row."""
        return np.exp(self._log_squares)

    @property
    def sum_squares_complement(self) -> Floats:
        """1 − the sum of squared weights of each row."""
        return np.asarray(-np.expm1(self._log_squares))
