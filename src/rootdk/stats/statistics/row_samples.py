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
        found = cls.empty(len(bars))
        for head, rows in enumerate(_smallest(priorities, bars)):
            if len(rows):
                some = slice(0, len(rows))
                found.priority[head, some] = priorities[head, rows]
                found.visible_keys[head, some] = block.visible_keys[head, rows]
                found.weights[head, some] = block.sorted_weights(head, rows, SAMPLED_WEIGHTS)
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
        # lexsort goes by its last key first.
        order = np.lexsort((keys, priority), axis=-1)
        if _has_ties(priority, keys, order):
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


def _smallest(priorities: Integers, bars: Integers) -> list[Integers]:
    """Return for each head the rows, ascending, of the smallest priorities up to a bar."""
    many = priorities.shape[1]
    if many > SAMPLED_ROWS:
        nth = np.partition(priorities, SAMPLED_ROWS - 1, axis=1)[:, SAMPLED_ROWS - 1]
        bars = np.minimum(nth, bars)
    within = (priorities <= bars[:, None]) & (priorities < _LAST)
    found = [np.nonzero(of_head)[0] for of_head in within]
    for head, rows in enumerate(found):
        if len(rows) > SAMPLED_ROWS:  # some are equal; the first of them stand for all
            first = np.argsort(priorities[head, rows], kind="stable")[:SAMPLED_ROWS]
            found[head] = np.sort(rows[first])
    return found


def _has_ties(priority: Integers, keys: Integers, order: Integers) -> bool:
    """Tell whether any two rows stand in an order that their weights have to decide."""
    first, then = (np.take_along_axis(each, order, axis=-1) for each in (priority, keys))
    alike = (first[:, 1:] == first[:, :-1]) & (then[:, 1:] == then[:, :-1])
    return bool(np.any(alike & (then[:, 1:] > 0)))
