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
        return cls.empty(len(block.visible_keys)).update(block)

    def update(self, block: Block) -> Self:
        """Return the state with one more block of rows."""
        # Sorting is dear, so only rows that can get in are sorted: few, once 8 are kept.
        priorities = np.where(block.settled, block.priorities, _LAST)
        candidates = type(self).empty(self.num_heads)
        found = False
        for head, bar in enumerate(self.priority[:, -1]):
            order = np.argsort(priorities[head], kind="stable")[
                : self._reach(priorities[head], bar)
            ]
            rows = np.sort(order[:SAMPLED_ROWS])  # a merge puts them in order of priority
            if not len(rows):
                continue
            found = True
            candidates.priority[head, : len(rows)] = priorities[head, rows]
            candidates.visible_keys[head, : len(rows)] = block.visible_keys[head, rows]
            for slot, weights in enumerate(block.sorted_weights(head, rows, SAMPLED_WEIGHTS)):
                candidates.weights[head, slot, : len(weights)] = weights
        return self.merge(candidates) if found else self

    @staticmethod
    def _reach(priorities: Integers, bar: int) -> int:
        return int(np.sum((priorities <= bar) & (priorities < _LAST)))

    def _merged(self, other: Self) -> Self:
        priority = np.concatenate([self.priority, other.priority], axis=1)
        keys = np.concatenate([self.visible_keys, other.visible_keys], axis=1)
        weights = np.concatenate([self.weights, other.weights], axis=1)
        # lexsort goes by its last key first: priority, then visible keys, then the weights.
        order = np.lexsort((keys, priority), axis=-1)
        if _has_ties(priority, keys, order):
            ties = np.moveaxis(-weights, -1, 0)[::-1]
            order = np.lexsort((*ties, keys, priority), axis=-1)
        kept = order[:, :SAMPLED_ROWS]
        return type(self)(
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


def _has_ties(priority: Integers, keys: Integers, order: Integers) -> bool:
    """Tell whether any two rows stand in an order that their weights have to decide."""
    first, then = (np.take_along_axis(each, order, axis=-1) for each in (priority, keys))
    alike = (first[:, 1:] == first[:, :-1]) & (then[:, 1:] == then[:, :-1])
    return bool(np.any(alike & (then[:, 1:] > 0)))
