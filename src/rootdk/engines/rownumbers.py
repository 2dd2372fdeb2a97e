"""A block that has no scores any more, only the numbers of its rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, Self

import numpy as np

from rootdk.engines.finiterows import FiniteRows
from rootdk.engines.hostarrays import smallest_first
from rootdk.engines.softmax_formulas import SoftmaxFormulas
from rootdk.stats.block import Floats, Integers
from rootdk.stats.statistic import BlockStatistic, statistics

SOFTMAX = {"row_entropy", "row_first_key", "row_jacobian_norm", "row_logsumexp", "row_maximum"}
SOFTMAX |= {"row_samples", "row_squares"}
"""The statistics that need the softmax."""

_HOME = "rootdk.stats.statistics."


def of_rows(name: str) -> bool:
    """Tell whether a statistic is known to read numbers of rows only."""
    kind = statistics()[name]
    return issubclass(kind, BlockStatistic) and kind.__module__.startswith(_HOME)


class _Columns:
    """Sums over exponentials, by name."""

    def __init__(self, columns: Mapping[str, Floats]) -> None:
        self._columns = columns

    def __getattr__(self, name: str) -> Floats:
        return self._columns[name]


class RowNumbers(FiniteRows, SoftmaxFormulas):
    """Rows whose scores are finite and gone.

    Parameters
    ----------
    columns : mapping of str to array, shape (num_heads, rows)
        Numbers of rows by name; scores with their offset.
    visible_keys, priorities : array, shape (num_heads, rows)
        As of every block.
    histogram : array, shape (num_heads, HISTOGRAM_BINS)
        As of every block.
    gaps : callable
        Takes rows, each by its head and its number, and yields of some of them at a time how far
        final scores are below the largest, computed anew; ∞ where a key is hidden.
    """

    def __init__(
        self,
        *,
        columns: Mapping[str, Floats],
        visible_keys: Integers,
        priorities: Integers,
        histogram: Integers,
        gaps: Callable[[Integers, Integers], Iterable[Floats]],
    ) -> None:
        self._columns = columns
        self._softmax = _Columns(columns)
        self._visible_keys = visible_keys
        self._priorities = priorities
        self._histogram = histogram
        self._gaps = gaps

    @classmethod
    def beside(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of all heads of several, each of which has as many rows."""
        if len(parts) == 1:
            return parts[0]
        ends = list(itertools.accumulate((len(part.visible_keys) for part in parts), initial=0))

        def gaps(heads: Integers, rows: Integers) -> Iterator[Floats]:
            places = np.searchsorted(heads, ends)
            for part, first, (start, stop) in zip(
                parts, ends, itertools.pairwise(places.tolist()), strict=False
            ):
                if start < stop:
                    yield from part._gaps(heads[start:stop] - first, rows[start:stop])

        return cls(
            columns={
                name: np.concatenate([part._columns[name] for part in parts])
                for name in parts[0]._columns
            },
            visible_keys=np.concatenate([part.visible_keys for part in parts]),
            priorities=np.concatenate([part.priorities for part in parts]),
            histogram=np.concatenate([part.histogram for part in parts]),
            gaps=gaps,
        )

    def _gone(self) -> NoReturn:
        raise TypeError("the scores of this block are gone; only numbers of its rows are left")

    @property
    def scores(self) -> Any:
        """Not there."""
        self._gone()

    @property
    def visible(self) -> Any:
        """Not there."""
        self._gone()

    @property
    def weights(self) -> Any:
        """Not there."""
        self._gone()

    @property
    def score_mean(self) -> Floats:
        """Mean score of each row."""
        return self._columns["score_mean"]

    @property
    def score_m2(self) -> Floats:
        """Squared deviations of each row."""
        return self._columns["score_m2"]

    @property
    def score_min(self) -> Floats:
        """Smallest score of each row."""
        return self._columns["score_min"]

    @property
    def score_max(self) -> Floats:
        """Largest score of each row."""
        return self._columns["score_max"]

    @property
    def histogram(self) -> Integers:
        """Standardised scores by bin."""
        return self._histogram

    @property
    def first_key_weight(self) -> Floats:
        """Weight of key 0."""
        return self._columns["first"] / (1.0 + self._softmax.others)

    @property
    def priorities(self) -> Integers:
        """Pseudo-random numbers of the rows."""
        return self._priorities

    def sorted_weights(self, heads: Integers, rows: Integers, most: int) -> Floats:
        """Return the largest weights of rows, largest first."""
        gaps = smallest_first(self._gaps(heads, rows), len(rows), most)
        return self._weights_of(gaps, heads, rows)
