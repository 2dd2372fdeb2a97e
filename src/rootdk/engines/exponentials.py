"""The softmax of a block's final scores, as sums that keep 1 − the largest weight."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from rootdk._lib.arrays import Array, float_info, to_numpy
from rootdk.engines.hostarrays import host
from rootdk.engines.tile import Tile
from rootdk.stats.block import Booleans, Floats


class _Sums(NamedTuple):
    """Exponentials, their sums and those of key 0, and what the largest still adds to sums."""

    exponentials: Array
    total: Floats
    first: Floats
    largest: float


@dataclass(frozen=True, eq=False)
class Exponentials:
    """Sums over exp(s − max s) along each row, with one largest element left out.

    The largest element contributes exactly 1. The sum of the others, kept by itself, gives
    1 − w_max = others/(1 + others) to full precision where the weight itself rounds to 1.

    Attributes
    ----------
    tile : Tile
        The scaled scores.
    """

    tile: Tile

    # -- final scores: the scores softcapped and biased, less an offset per row

    @cached_property
    def _final(self) -> tuple[Array, Floats]:
        tile = self.tile
        if tile.softcap is None and tile.bias is None:
            return tile.held, tile.offset
        # What is not finite may become so: the cap of an infinite score is finite.
        scores, offset = (tile.held if tile.tame else tile.raw), tile.offset
        if tile.softcap is not None:
            whole = scores + tile.as_column(offset)
            scores = tile.softcap * tile.xp.tanh(whole / tile.softcap)
            offset = np.zeros_like(offset)
        if tile.bias is not None:
            bias, highest = self._bias
            scores, offset = scores + bias, offset + highest
        return scores, offset

    @cached_property
    def _bias(self) -> tuple[Array, Floats]:
        """The bias less its largest visible value per row, and that value.

        So a row that is filled with −1e9 throughout keeps the digits of its scores.
        """
        tile, xp = self.tile, self.tile.xp
        bias, dtype = tile.bias, tile.query.dtype
        if float_info(bias).bits < float_info(dtype).bits:
            bias = xp.astype(bias, dtype)
        seen = bias if tile.mask is None else xp.where(tile.mask, bias, -np.inf)
        highest = xp.max(seen, axis=-1, keepdims=True)
        highest = xp.where(xp.isfinite(highest), highest, 0.0)
        bias = xp.astype(xp.maximum(bias - highest, -tile.limit), dtype)
        return bias, np.broadcast_to(host(highest)[..., 0], tile.shape[:-1])

    @cached_property
    def _unfit(self) -> Array:
        """Visible final scores that are not finite."""
        xp, final = self.tile.xp, self._final[0]
        unfit = ~xp.isfinite(final)
        return unfit if self.tile.mask is None else unfit & self.tile.mask

    @cached_property
    def finite(self) -> Booleans:
        """Whether every visible final score of the row is finite."""
        tile = self.tile
        if tile.tame or (tile.softcap is None and tile.bias is None):
            return np.equal(tile.visible_keys, tile.finite_scores)
        return ~to_numpy(tile.xp.any(self._unfit, axis=-1))

    @property
    def _plural(self) -> Booleans:
        return self.finite & (self.tile.visible_keys > 1)

    # -- exponentials

    @cached_property
    def _largest(self) -> Array:
        """Largest visible final score of each row; 0 in empty rows."""
        tile, xp = self.tile, self.tile.xp
        final = self._clean
        if final is tile.held and self._ceiling is tile.ceiling:
            return xp.where(tile.largest > -tile.limit, tile.largest, 0.0)
        seen = final if self._ceiling is None else xp.minimum(final, self._ceiling)
        largest = xp.max(seen, axis=-1, keepdims=True)
        return xp.where(largest > -tile.limit, largest, 0.0)

    @cached_property
    def _clean(self) -> Array:
        final = self._final[0]
        if self.tile.tame:
            return final
        return self.tile.xp.where(self.tile.xp.isfinite(final), final, 0.0)

    @cached_property
    def _ceiling(self) -> Array | None:
        if self.tile.tame or self.tile.mask is None:
            return self.tile.ceiling if self.tile.tame else None
        tile = self.tile
        return (tile.xp.astype(tile.mask, tile.query.dtype) * 2.0 - 1.0) * tile.limit

    @cached_property
    def gaps(self) -> Array:
        """Final scores less the largest of their row; a huge negative number if invisible."""
        gaps = self._clean - self._largest
        return gaps if self._ceiling is None else self.tile.xp.minimum(gaps, self._ceiling)

    @cached_property
    def peak(self) -> Floats:
        """Largest visible final score of each row."""
        return host(self._largest)[..., 0] + self._final[1]

    @cached_property
    def _sums(self) -> _Sums:
        xp = self.tile.xp
        exponentials = xp.exp(self.gaps)
        total, first = host(xp.sum(exponentials, axis=-1)), host(exponentials[..., 0])
        # Leaving the largest out costs a pass, and matters only where it dwarfs the others.
        if np.any(self._plural & (total < 2.0)):
            self.tile.kernels.zero_largest(exponentials)
            return _Sums(exponentials, host(xp.sum(exponentials, axis=-1)), first, 0.0)
        return _Sums(exponentials, total, first, 1.0)

    @property
    def first(self) -> Floats:
        """The exponential of key 0 of the range."""
        return self._sums.first

    @cached_property
    def others(self) -> Floats:
        """Sum of all exponentials but the largest."""
        return np.maximum(self._sums.total - self._sums.largest, 0.0)

    @cached_property
    def weighted_gaps(self) -> Floats:
        """Sum of the exponentials times their gaps, at most 0."""
        return host(self.tile.dot(self._sums.exponentials, self.gaps))

    @cached_property
    def other_squares(self) -> Floats:
        """Sum of all squared exponentials but the largest."""
        exponentials = self._sums.exponentials
        squares = self.tile.dot(exponentials, exponentials)
        return np.maximum(host(squares) - self._sums.largest, 0.0)

    @cached_property
    def other_cubes(self) -> Floats:
        """Sum of all cubed exponentials but the largest."""
        exponentials = self._sums.exponentials
        cubes = self.tile.dot(exponentials * exponentials, exponentials)
        return np.maximum(host(cubes) - self._sums.largest, 0.0)
