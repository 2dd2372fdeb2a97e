"""The scores of a block of rows, held without what is the same for all keys of a row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rootdk._lib.arrays import Array, Namespace, float_info, to_numpy
from rootdk.engines.kernels import Kernels
from rootdk.stats.block import Floats, Integers


@dataclass(frozen=True, eq=False, kw_only=True)
class Tile:
    """Scores of some rows of some heads, over a range of keys outside of which they see nothing.

    Scores are held without their offset: with keys centred on their mean k̄, the score is
    ``c·q·(k − k̄) + c·q·k̄``, and only the first term is held, in the precision of the block;
    the second is the same for all keys of a row, and is added to rows in float64. So a
    large mean of the entries costs no digits.

    Attributes
    ----------
    xp, kernels
        The library of the arrays.
    query : array, shape (num_heads, rows, head_dim)
        The queries times the scale.
    key : array, shape (num_heads or 1, keys, head_dim)
        The centred keys of the range.
    entries : array of float64, shape (num_heads, rows, head_dim)
        The queries as they were given.
    offset : array of float64, shape (num_heads, rows)
        What centring took from the scores of the row.
    mask : boolean array or None
        Which scores are visible, ``(num_heads or 1, rows, keys)``; None if all are.
    bias : array or None
        Additive term, ``(num_heads or 1, rows or 1, keys or 1)``; −inf counts as invisible.
    softcap : float or None
        Bound of the scores.
    starts_at_first_key : bool
        Whether the range holds key 0.
    tame : bool
        Whether every score and every bias is known to be finite.
    error : array of float64, shape (num_heads, rows)
        Largest rounding error of a row's scores, as far as it is known: what is flat within it
        is taken for flat.
    """

    xp: Namespace
    kernels: Kernels
    query: Array
    key: Array
    entries: Floats
    offset: Floats
    mask: Array | None
    bias: Array | None
    softcap: float | None
    starts_at_first_key: bool
    tame: bool
    error: Floats

    @cached_property
    def raw(self) -> Array:
        """Scores without their offset, as the product gives them."""
        return self.xp.matmul(self.query, self.xp.matrix_transpose(self.key))

    @cached_property
    def limit(self) -> float:
        """A number beyond every score, far enough from overflow to be added to one."""
        return float_info(self.query).max / 8.0

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """Sizes: (num_heads, rows, keys)."""
        heads, rows, _ = self.query.shape
        return int(heads), int(rows), int(self.key.shape[-2])

    @cached_property
    def counted(self) -> Array | None:
        """Which scores are visible and finite; None if all are."""
        if self.tame:
            return self.mask
        finite = self.xp.isfinite(self.raw)
        return finite if self.mask is None else finite & self.mask

    @cached_property
    def held(self) -> Array:
        """Scores without their offset, 0 where they are not finite or, maybe, invisible."""
        return self.raw if self.tame else self.xp.where(self.counted, self.raw, 0.0)

    @cached_property
    def ones(self) -> Array | None:
        """1 for each score that counts, 0 for others; None if all do."""
        # Multiplying by it, and comparing with it, is many times quicker than selecting.
        return None if self.counted is None else self.as_numbers(self.counted)

    @cached_property
    def ceiling(self) -> Array | None:
        """A number beyond every score for each score that counts, its negative for others."""
        return None if self.ones is None else (self.ones * 2.0 - 1.0) * self.limit

    @cached_property
    def largest(self) -> Array:
        """Largest of each row that counts, (num_heads, rows, 1); a huge negative number of none."""
        seen = self.held if self.ceiling is None else self.xp.minimum(self.held, self.ceiling)
        return self.xp.max(seen, axis=-1, keepdims=True)

    @cached_property
    def visible_keys(self) -> Integers:
        """Visible keys of each row."""
        return self.count(self.mask)

    @cached_property
    def finite_scores(self) -> Integers:
        """Visible, finite scores of each row."""
        return self.visible_keys if self.tame else self.count(self.counted)

    # -- what rows and scores say to each other

    def dot(self, left: Array, right: Array) -> Array:
        """Return the sums of products along the keys."""
        return self.kernels.dot(left, self.xp.broadcast_to(right, left.shape))

    def count(self, where: Array | None) -> Integers:
        """Return how many keys of each row are selected; None selects all."""
        heads, rows, keys = self.shape
        if where is None:
            return np.full((heads, rows), keys, dtype=np.int64)
        counted = to_numpy(self.xp.count_nonzero(where, axis=-1)).astype(np.int64)
        return np.broadcast_to(counted, (heads, rows))

    def as_numbers(self, where: Array) -> Array:
        """Return 1 where selected and 0 elsewhere, in the dtype of the scores."""
        return self.xp.astype(where, self.query.dtype)

    def as_column(self, of_rows: Floats) -> Array:
        """Return numbers of rows as an array that broadcasts along the keys."""
        return self.kernels.as_array(of_rows, self.query)[..., None]
