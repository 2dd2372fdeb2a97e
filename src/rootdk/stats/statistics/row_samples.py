"""A few whole rows of weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np

from rootdk.stats.block import Block, Floats, Integers
from rootdk.stats.statistic import BlockStatistic, Law

SAMPLED_ROWS = 8
"""Rows kept per head."""

SAMPLED_WEIGHTS = 256
"""Weights kept per row: the largest."""

_LAST = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class RowSamples(BlockStatistic):
    """The sorted weights of at most 8 rows per head.

    Kept are the rows with the smallest priorities, pseudo-random numbers that belong to
    the rows themselves, so that a merge keeps the smallest of both sides and does not
    depend on the order. Rows of equal priority (equal queries with as many visible keys)
    go by their weights; more than 8 such rows in one block stand for each other.

    Attributes
    ----------
    priority : array of int64, shape (num_heads, 8)
        Ascending; the largest int64 where there is no row.
    visible_keys : array of int64, shape (num_heads, 8)
        Visible keys of the row; 0 where there is no row.
    weights : array of float64, shape (num_heads, 8, 256)
        The row's weights, largest first; NaN from its last visible key on.
    """

    name = "row_samples"

    priority: Annotated[Integers, Law(None, 0, np.int64, (SAMPLED_ROWS,))]
    visible_keys: Annotated[Integers, Law(None, 0, np.int64, (SAMPLED_ROWS,))]
    weights: Annotated[Floats, Law(None, np.nan, np.float64, (SAMPLED_ROWS, SAMPLED_WEIGHTS))]

    @classmethod
    def empty(cls, num_heads: int) -> Self:
        """Return the state of no rows at all."""
        return cls(
            priority=np.full((num_heads, SAMPLED_ROWS), _LAST, dtype=np.int64),
            visible_keys=np.zeros((num_heads, SAMPLED_ROWS), dtype=np.int64),
            weights=np.full((num_heads, SAMPLED_ROWS, SAMPLED_WEIGHTS), np.nan),
        )

    @classmethod
    def of(cls, block: Block) -> Self:
        """Return the state of one block of rows."""
        return cls._candidates(block, np.full(len(block.visible_keys), _LAST))

    def update(self, block: Block) -> Self:
        """Return the state with one more block of rows."""
        # Sorting is dear, so only rows that can get in are sorted: few, once 8 are kept.
        candidates = self._candidates(block, self.priority[:, -1])
        return self.merge(candidates) if candidates.visible_keys.any() else self

    @classmethod
    def _candidates(cls, block: Block, bars: Integers) -> Self:
        """Return the rows of a block whose priorities are at most those of each head."""
        priorities = np.where(block.settled, block.priorities, _LAST)
        heads, rows = _smallest(priorities, bars)
        if not len(rows):
            return cls.empty(len(bars))
        priority, keys = priorities[heads, rows], block.visible_keys[heads, rows]
        weights = block.sorted_weights(heads, rows, SAMPLED_WEIGHTS)
        # lexsort goes by its last key first.
        order = np.lexsort((keys, priority, heads))
        priority, keys, weights = priority[order], keys[order], weights[order]
        if len(rows) == len(bars) * SAMPLED_ROWS:
            shape = len(bars), SAMPLED_ROWS
            found = cls(priority.reshape(shape), keys.reshape(shape), weights.reshape(*shape, -1))
        else:
            found = cls.empty(len(bars))
            place = np.arange(len(rows)) - np.searchsorted(heads, heads)
            found.priority[heads, place] = priority
            found.visible_keys[heads, place] = keys
            found.weights[heads, place] = weights
        if not _has_ties(found.priority, found.visible_keys):
            return found
        return cls._of_smallest(found.priority, found.visible_keys, found.weights)

    def _merged(self, other: Self) -> Self:
        return type(self)._of_smallest(
            np.concatenate([self.priority, other.priority], axis=1),
            np.concatenate([self.visible_keys, other.visible_keys], axis=1),
            np.concatenate([self.weights, other.weights], axis=1),
        )

    @classmethod
    def _of_smallest(cls, priority: Integers, keys: Integers, weights: Floats) -> Self:
        """Return the state of those rows that come first, by priority, then keys, then weights."""
        order = np.lexsort((keys, priority), axis=-1)
        if _has_ties(*(np.take_along_axis(each, order, axis=-1) for each in (priority, keys))):
            ties = np.moveaxis(-weights, -1, 0)[::-1]
            order = np.lexsort((*ties, keys, priority), axis=-1)
        kept = order[:, :SAMPLED_ROWS]
        return cls(
            priority=np.take_along_axis(priority, kept, axis=1),
            visible_keys=np.take_along_axis(keys, kept, axis=1),
            weights=np.take_along_axis(weights, kept[:, :, None], axis=1),
        )

    def rows(self) -> tuple[tuple[Floats, ...], ...]:
        """Return the rows of each head, each as its weights, largest first."""
        return tuple(
            tuple(
                row[: min(length, SAMPLED_WEIGHTS)]
                for row, length in zip(rows, lengths, strict=True)
                if length > 0
            )
            for rows, lengths in zip(self.weights, self.visible_keys, strict=True)
        )


def _smallest(priorities: Integers, bars: Integers) -> tuple[Integers, Integers]:
    """Return heads and rows, ascending, of each head's smallest priorities up to its bar."""
    many = priorities.shape[1]
    if many > SAMPLED_ROWS:
        nth = np.partition(priorities, SAMPLED_ROWS - 1, axis=1)[:, SAMPLED_ROWS - 1]
        bars = np.minimum(nth, bars)
    within = (priorities <= bars[:, None]) & (priorities < _LAST)
    for head in np.flatnonzero(np.count_nonzero(within, axis=1) > SAMPLED_ROWS):
        # Some are equal; the first of them stand for all.
        rows = np.flatnonzero(within[head])
        within[head, rows[np.argsort(priorities[head, rows], kind="stable")[SAMPLED_ROWS:]]] = False
    heads, rows = np.nonzero(within)
    return heads, rows


def _has_ties(priority: Integers, keys: Integers) -> bool:
    """Tell whether any two neighbours stand in an order that their weights have to decide."""
    alike = (priority[:, 1:] == priority[:, :-1]) & (keys[:, 1:] == keys[:, :-1])
    return bool(np.any(alike & (keys[:, 1:] > 0)))
