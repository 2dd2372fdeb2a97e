"""One head of one attention call with everything spelt out: what quantities are defined on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from rootdk.stats.block import Booleans, Floats


@dataclass(frozen=True, kw_only=True)
class Row:
    """One query row of one head, visible keys only.

    Attributes
    ----------
    scores, final : array of float64, shape (visible_keys,)
        Scaled scores, and what the softmax sees of them.
    weights : array of float64, shape (visible_keys,)
        Softmax of ``final``.
    first_key_weight : float
        Weight of key 0; 0 if it is invisible.
    """

    scores: Floats
    final: Floats
    weights: Floats
    first_key_weight: float


@dataclass(frozen=True, kw_only=True)
class Head:
    """One head of one attention call, whole and in float64.

    It holds queries × keys, so it is for small calls: the second, independent account of
    each quantity, which tests hold against its formula over sufficient statistics.

    Attributes
    ----------
    scores, final : array, shape (batch · queries, keys)
        Scaled scores, and the same softcapped and biased.
    visible : boolean array, shape (batch · queries, keys)
        Where a query may attend.
    query, key : array
        Entries of the head, and of the key-value head it uses; any shape.
    value, inputs : array or None
        Entries of the value, and of what enters the projections.
    scale : float
        The multiplier.
    head_dim : int
        Entries per query.
    largest_score : float
        Largest finite value of the dtype of the scores.
    """

    scores: Floats
    final: Floats
    visible: Booleans
    query: Floats
    key: Floats
    value: Floats | None
    inputs: Floats | None
    scale: float
    head_dim: int
    largest_score: float

    @property
    def visible_scores(self) -> Floats:
        """All visible, finite scaled scores, in one dimension."""
        scores = self.scores[self.visible]
        return scores[np.isfinite(scores)]

    def rows(self, *, at_least: int = 1) -> Iterator[Row]:
        """Yield the rows with so many visible keys whose final scores are all finite."""
        for scores, final, visible in zip(self.scores, self.final, self.visible, strict=True):
            if np.sum(visible) < at_least or not np.all(np.isfinite(final[visible])):
                continue
            weights = np.zeros_like(final)
            exponentials = np.exp(final[visible] - np.max(final[visible]))
            weights[visible] = exponentials / np.sum(exponentials)
            yield Row(
                scores=scores[visible],
                final=final[visible],
                weights=weights[visible],
                first_key_weight=float(weights[0]),
            )

    def row_mean(self, number: Callable[[Row], float], *, at_least: int = 2) -> float:
        """Return the mean of a number over rows with so many visible keys; NaN of none."""
        numbers = [number(row) for row in self.rows(at_least=at_least)]
        return float(np.mean(numbers)) if numbers else float("nan")


def xlogx(weights: Floats) -> Floats:
    """Return w·log w, which is 0 at w = 0.

    Examples
    --------
    >>> xlogx(np.asarray([0.0, 1.0]))
    array([0., 0.])
    """
    return weights * np.log(np.where(weights > 0, weights, 1.0))
