"""Numbers of rows that follow from sums over exponentials, one largest of each row left out."""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import numpy as np

from rootdk.stats.block import Block, Floats, Integers


class Sums(Protocol):
    """Sums over e = exp(s − max s) along each row, without one largest, whose e is 1."""

    @property
    def peak(self) -> Floats:
        """Largest visible final score of each row."""
        ...

    @property
    def others(self) -> Floats:
        """Sum of e."""
        ...

    @property
    def weighted_gaps(self) -> Floats:
        """Sum of e · (s − max s), at most 0."""
        ...

    @property
    def other_squares(self) -> Floats:
        """Sum of e²."""
        ...

    @property
    def other_cubes(self) -> Floats:
        """Sum of e³."""
        ...


class SoftmaxFormulas(Block):
    """A block whose softmax is known by :class:`Sums`."""

    _softmax: Sums

    @cached_property
    def logsumexp(self) -> Floats:
        """Normaliser of each row."""
        return self._softmax.peak + self._log_normaliser

    @cached_property
    def _log_normaliser(self) -> Floats:
        return np.log1p(self._softmax.others)

    @cached_property
    def entropy(self) -> Floats:
        """Entropy of each row."""
        return self._log_normaliser - self._softmax.weighted_gaps / (1.0 + self._softmax.others)

    @cached_property
    def max_weight(self) -> Floats:
        """Largest weight of each row."""
        return 1.0 / (1.0 + self._softmax.others)

    @cached_property
    def max_weight_complement(self) -> Floats:
        """1 − the largest weight of each row."""
        return self._softmax.others / (1.0 + self._softmax.others)

    @cached_property
    def _other_squares(self) -> Floats:
        """Sum of squared weights of each row, all but the largest."""
        return self._softmax.other_squares / (1.0 + self._softmax.others) ** 2

    @cached_property
    def sum_squares(self) -> Floats:
        """Sum of squared weights of each row."""
        return self.max_weight**2 + self._other_squares

    @cached_property
    def sum_squares_complement(self) -> Floats:
        """1 − the sum of squared weights of each row."""
        # 1 − p² − Σ'w² = (1 − p)(1 + p) − Σ'w², and Σ'w² is at most (1 − p)².
        top = self.max_weight_complement * (1.0 + self.max_weight)
        return np.maximum(top - self._other_squares, 0.0)

    @cached_property
    def jacobian_norm(self) -> Floats:
        """Frobenius norm of each row's Jacobian."""
        # The largest weight p by itself, so that nothing near 1 is subtracted from 1.
        squares = self._other_squares
        cubes = self._softmax.other_cubes / (1.0 + self._softmax.others) ** 3
        top = (self.max_weight * self.max_weight_complement) ** 2
        cross = 2.0 * self.max_weight**2 * squares
        return np.sqrt(np.maximum(top + cross + squares - 2.0 * cubes + squares**2, 0.0))

    def _weights_of(self, gaps: Floats, heads: Integers, rows: Integers) -> Floats:
        """Return weights from the smallest gaps of rows, which are lost; NaN past visible keys."""
        weights = np.exp(np.negative(gaps, out=gaps), out=gaps)
        weights *= self.max_weight[heads, rows, None]
        seen = self.visible_keys[heads, rows]
        if seen.min(initial=gaps.shape[1]) < gaps.shape[1]:
            weights[np.arange(gaps.shape[1]) >= seen[:, None]] = np.nan
        return weights
