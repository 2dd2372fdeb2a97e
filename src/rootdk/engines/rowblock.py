"""A block of rows computed with as few passes over its scores as the numbers asked for need."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from rootdk._lib.arrays import Array, to_numpy
from rootdk.engines.exponentials import Exponentials
from rootdk.engines.hostarrays import host, smallest_first
from rootdk.engines.priority import priorities
from rootdk.engines.softmax_formulas import SoftmaxFormulas
from rootdk.engines.tile import Tile
from rootdk.stats.block import HISTOGRAM_BINS, HISTOGRAM_REACH, Booleans, Floats, Integers

_PER_UNIT = HISTOGRAM_BINS / (2.0 * HISTOGRAM_REACH)
_MIDDLE = HISTOGRAM_BINS // 2


class RowBlock(SoftmaxFormulas):
    """The rows of a tile, each number computed when it is first asked for.

    Parameters
    ----------
    tile : Tile
        The scores.
    """

    def __init__(self, tile: Tile) -> None:
        self._tile = tile
        # Not given this block itself: in a cycle, memory waits for the garbage collector.
        self._softmax: Exponentials = Exponentials(tile)

    @property
    def size(self) -> tuple[int, int]:
        """Rows and keys of one head."""
        return self._tile.shape[1:]

    # -- the stages

    @property
    def scores(self) -> Array:
        """Scaled scores."""
        return self._tile.raw + self._tile.as_column(self._tile.offset)

    @property
    def visible(self) -> Array:
        """Which scores are visible."""
        tile = self._tile
        everywhere = tile.xp.isfinite(tile.raw) | True
        return everywhere if tile.mask is None else everywhere & tile.mask

    @property
    def visible_keys(self) -> Integers:
        """Visible keys of each row."""
        return self._tile.visible_keys

    @property
    def finite_scores(self) -> Integers:
        """Visible, finite scores of each row."""
        return self._tile.finite_scores

    # -- scaled scores by row

    @cached_property
    def _held_mean(self) -> Floats:
        """Mean of each row's scores without their offset."""
        tile = self._tile
        if tile.ones is None:
            # The sum of products with all keys is the product with their sum.
            keys = host(tile.xp.sum(tile.key, axis=-2))
            total = np.vecdot(host(tile.query), keys[..., None, :])
            return np.asarray(total / tile.shape[-1])
        total = tile.dot(tile.held, tile.ones)
        return host(total) / np.maximum(self.finite_scores, 1)

    @cached_property
    def _deviations(self) -> Array:
        tile = self._tile
        deviations = tile.held - tile.as_column(self._held_mean)
        return deviations if tile.ones is None else deviations * tile.ones

    @cached_property
    def score_mean(self) -> Floats:
        """Mean score of each row."""
        return np.where(self.finite_scores > 0, self._held_mean + self._tile.offset, 0.0)

    @cached_property
    def score_m2(self) -> Floats:
        """Squared deviations of each row."""
        return host(self._tile.dot(self._deviations, self._deviations))

    @cached_property
    def score_min(self) -> Floats:
        """Smallest score of each row."""
        tile, seen = self._tile, self._tile.held
        if tile.ceiling is not None:
            seen = tile.xp.maximum(seen, -tile.ceiling)
        least = host(tile.xp.min(seen, axis=-1)) + tile.offset
        return np.where(self.finite_scores > 0, least, np.inf)

    @cached_property
    def score_max(self) -> Floats:
        """Largest score of each row."""
        tile = self._tile
        return np.where(self.finite_scores > 0, host(tile.largest)[..., 0] + tile.offset, -np.inf)

    @cached_property
    def histogram(self) -> Integers:
        """Standardised scores by bin."""
        tile = self._tile
        deviation = np.sqrt(self.score_m2 / np.maximum(self.finite_scores, 1))
        shaped = (self.finite_scores > 0) & (deviation > tile.error)
        inverse = np.where(shaped, _PER_UNIT / np.where(shaped, deviation, 1.0), 0.0)
        standard = self._deviations * tile.as_column(inverse)
        standard += _MIDDLE
        # Whole parts up to this are the last bin's.
        standard = tile.xp.clip(standard, 0.0, HISTOGRAM_BINS - 0.5)
        codes = tile.kernels.bytes_for(standard.shape, standard)
        bins = tile.kernels.count_codes(tile.kernels.codes(standard, codes))
        # What does not count has deviation 0 exactly, and so has every score of a flat row.
        keys = tile.shape[-1]
        elsewhere = np.where(shaped, keys - self.finite_scores, keys)
        bins[:, _MIDDLE] -= np.sum(elsewhere, axis=-1)
        return bins

    # -- the softmax by row: see _softmax

    @cached_property
    def finite(self) -> Booleans:
        """Whether every visible final score of the row is finite."""
        if self._tile.tame:
            return np.full(self._tile.shape[:-1], True)
        return self._softmax.finite

    @cached_property
    def first_key_weight(self) -> Floats:
        """Weight of key 0."""
        if not self._tile.starts_at_first_key:
            return np.zeros(self._tile.shape[:-1])
        return self._softmax.first / (1.0 + self._softmax.others)

    @cached_property
    def weights(self) -> Array:
        """Weights."""
        tile = self._tile
        top = tile.as_column(np.where(self.settled, self.max_weight, 0.0))
        return tile.xp.exp(self._softmax.gaps) * top

    # -- single rows

    @cached_property
    def priorities(self) -> Integers:
        """Pseudo-random numbers of the rows."""
        return priorities(self._tile.entries, self.visible_keys)

    def _gaps(self, head: int, row: int) -> Floats:
        """Return how far the final scores of a row are below the largest; ∞ where hidden."""
        gaps, mask = -host(self._softmax.gaps[head, row]), self._tile.mask
        if mask is None:
            return gaps
        return np.where(to_numpy(mask[head if mask.shape[0] > 1 else 0, row]), gaps, np.inf)

    def sorted_weights(self, heads: Integers, rows: Integers, most: int) -> Floats:
        """Return the largest weights of rows, largest first."""
        pairs = zip(heads.tolist(), rows.tolist(), strict=True)
        gaps = smallest_first((self._gaps(*pair)[None] for pair in pairs), len(rows), most)
        return self._weights_of(gaps, heads, rows)
