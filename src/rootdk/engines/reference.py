"""The reference engine: every stage of the reference attention, whole, in float64.

It holds queries × keys, several times over, and does everything the obvious way. It is
what the other engines are held against.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from rootdk._lib.arrays import to_numpy
from rootdk.attention import attention, entropy_nats, logsumexp, softmax
from rootdk.engines.call import Call
from rootdk.engines.fill import Filled, fill
from rootdk.engines.priority import priorities
from rootdk.stats.block import HISTOGRAM_BINS, HISTOGRAM_REACH, Block, Booleans, Floats, Integers

FLAT = 1e-12
"""A row is flat if its standard deviation is at most this part of its largest score."""


def refusal(call: Call, names: set[str]) -> str | None:
    """Return why the engine cannot measure this; it always can."""
    return None


def run(call: Call, names: set[str]) -> Filled:
    """Measure the named statistics of a call."""
    return fill(list(blocks(call)), names, f"reference ({call.library}, float64)", call.num_heads)


def blocks(call: Call) -> list[WholeBlock]:
    """Return one block per batch element, each with all heads and all rows to measure."""
    return [_block(call, element) for element in range(call.batch)]


def _block(call: Call, element: int) -> WholeBlock:
    query, key = (_float64(array[element]) for array in (call.query, call.key))
    stages = attention(
        query,
        key,
        np.zeros((*key.shape[:-1], 1)),
        scale=call.scale,
        mask=_mask(call, element),
        bias=_of_element(call.bias, element),
        causal=call.causal,
        window=call.window,
        softcap=call.softcap,
        return_stages=True,
    )
    return WholeBlock(
        query=query[:, call.rows],
        scores=stages.scaled[:, call.rows],
        visible=stages.visible[:, call.rows],
        final=stages.biased[:, call.rows],
    )


def _mask(call: Call, element: int) -> object:
    mask = _of_element(call.mask, element)
    if call.segments is None:
        return mask
    segment = np.searchsorted(call.segments, np.arange(call.keys), side="right")
    same = segment[:, None] == segment
    return same if mask is None else same & mask


def _float64(array: object) -> Floats:
    return to_numpy(array).astype(np.float64)


def _of_element(array: object, element: int) -> object:
    if array is None:
        return None
    values = to_numpy(array)
    values = values[element if values.shape[0] > 1 else 0]
    return values if values.dtype == np.bool_ else values.astype(np.float64)


class WholeBlock(Block):
    """Rows of all heads, with the stages held whole.

    Parameters
    ----------
    query : array, shape (num_heads, rows, head_dim)
        The queries of the rows.
    scores, final : array, shape (num_heads, rows, keys)
        Scaled scores; softcapped and biased scores, −inf where invisible.
    visible : boolean array, shape (num_heads, rows, keys)
        Where a query may attend.
    """

    def __init__(self, *, query: Floats, scores: Floats, visible: Booleans, final: Floats) -> None:
        self._query = query
        self._scores = scores
        self._visible = visible
        self._final = final

    @property
    def scores(self) -> Floats:
        """Scaled scores."""
        return self._scores

    @property
    def visible(self) -> Booleans:
        """Where a query may attend."""
        return self._visible

    @cached_property
    def weights(self) -> Floats:
        """Weights."""
        return softmax(self._final)  # type: ignore[no-any-return]

    @cached_property
    def visible_keys(self) -> Integers:
        """Visible keys of each row."""
        return np.asarray(np.sum(self.visible, axis=-1, dtype=np.int64))

    @cached_property
    def finite(self) -> Booleans:
        """Whether every visible final score of the row is finite."""
        return np.asarray(np.all(np.isfinite(self._final) | ~self.visible, axis=-1))

    @cached_property
    def _counted(self) -> Booleans:
        return self.visible & np.isfinite(self.scores)

    @cached_property
    def finite_scores(self) -> Integers:
        """Visible scores that are finite."""
        return np.asarray(np.sum(self._counted, axis=-1, dtype=np.int64))

    @cached_property
    def score_mean(self) -> Floats:
        """Mean score of each row."""
        kept = np.where(self._counted, self.scores, 0.0)
        return np.asarray(np.sum(kept, axis=-1) / np.maximum(self.finite_scores, 1))

    @cached_property
    def _deviations(self) -> Floats:
        return np.where(self._counted, self.scores - self.score_mean[..., None], 0.0)

    @cached_property
    def score_m2(self) -> Floats:
        """Squared deviations of each row."""
        return np.asarray(np.sum(self._deviations**2, axis=-1))

    @cached_property
    def score_min(self) -> Floats:
        """Smallest score of each row."""
        return np.asarray(
            np.min(np.where(self._counted, self.scores, np.inf), axis=-1, initial=np.inf)
        )

    @cached_property
    def score_max(self) -> Floats:
        """Largest score of each row."""
        return np.asarray(
            np.max(np.where(self._counted, self.scores, -np.inf), axis=-1, initial=-np.inf)
        )

    @cached_property
    def histogram(self) -> Integers:
        """Standardised scores by bin."""
        deviation = np.sqrt(self.score_m2 / np.maximum(self.finite_scores, 1))
        largest = np.maximum(np.abs(self.score_min), np.abs(self.score_max))
        shaped = (self.finite_scores > 0) & (deviation > FLAT * largest)
        bins = np.zeros((len(self.scores), HISTOGRAM_BINS), dtype=np.int64)
        width = 2.0 * HISTOGRAM_REACH / HISTOGRAM_BINS
        for head, row in zip(*np.nonzero(shaped), strict=True):
            standard = self._deviations[head, row, self._counted[head, row]] / deviation[head, row]
            bin_of = np.floor((standard + HISTOGRAM_REACH) / width).astype(np.int64)
            np.add.at(bins[head], np.clip(bin_of, 0, HISTOGRAM_BINS - 1), 1)
        return bins

    @cached_property
    def logsumexp(self) -> Floats:
        """Normaliser of each row."""
        return logsumexp(self._final)  # type: ignore[no-any-return]

    @cached_property
    def entropy(self) -> Floats:
        """Entropy of each row."""
        return entropy_nats(self.weights)  # type: ignore[no-any-return]

    @cached_property
    def _ascending(self) -> Floats:
        return np.sort(self.weights, axis=-1)

    @cached_property
    def max_weight(self) -> Floats:
        """Largest weight of each row."""
        return np.asarray(np.max(self.weights, axis=-1, initial=0.0))

    @cached_property
    def max_weight_complement(self) -> Floats:
        """Sum of all weights of each row but the largest."""
        return np.asarray(np.sum(self._ascending[..., :-1], axis=-1))

    @cached_property
    def sum_squares(self) -> Floats:
        """Sum of squared weights of each row."""
        return np.asarray(np.sum(self.weights**2, axis=-1))

    @cached_property
    def sum_squares_complement(self) -> Floats:
        """Sum of w(1 − w) of each row."""
        others = self._ascending[..., :-1]
        top = self.max_weight * self.max_weight_complement
        return np.asarray(np.sum(others * (1.0 - others), axis=-1) + top)

    @cached_property
    def jacobian_norm(self) -> Floats:
        """Frobenius norm of each row's Jacobian, from its diagonal and the rest of it."""
        others = self._ascending[..., :-1]
        squares, fourths = np.sum(others**2, axis=-1), np.sum(others**4, axis=-1)
        diagonal = np.sum((others * (1.0 - others)) ** 2, axis=-1)
        diagonal += (self.max_weight * self.max_weight_complement) ** 2
        # Σ wᵢ²wⱼ² over i ≠ j: the largest with each of the others, and they among themselves.
        rest = 2.0 * self.max_weight**2 * squares + np.maximum(squares**2 - fourths, 0.0)
        return np.asarray(np.sqrt(diagonal + rest))

    @cached_property
    def first_key_weight(self) -> Floats:
        """Weight of key 0."""
        if not self.weights.shape[-1]:
            return np.zeros(self.weights.shape[:-1])
        return self.weights[..., 0]

    @cached_property
    def priorities(self) -> Integers:
        """Pseudo-random numbers of the rows."""
        return priorities(self._query, self.visible_keys)

    def sorted_weights(self, heads: Integers, rows: Integers, most: int) -> Floats:
        """Return the largest weights of rows, largest first."""
        found = np.full((len(rows), most), np.nan)
        for weights, head, row in zip(found, heads, rows, strict=True):
            seen = self.weights[head, row][self.visible[head, row]]
            weights[: len(seen)] = np.sort(seen)[::-1][:most]
        return found
