"""The numbers of so few rows that their scores stay in the cache, in as few passes as they take."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from rootdk._lib.arrays import Array, to_numpy
from rootdk.engines.codecounter import CodeCounter
from rootdk.engines.flatsums import Sums
from rootdk.engines.hiding import Hidden
from rootdk.engines.hostarrays import host
from rootdk.engines.kernels import Kernels
from rootdk.stats.block import HISTOGRAM_BINS, HISTOGRAM_REACH, Floats, Integers

_PER_UNIT = HISTOGRAM_BINS / (2.0 * HISTOGRAM_REACH)
_MIDDLE = HISTOGRAM_BINS // 2

_SMALL = 16.0
"""The largest score of a row, up to which exponentials are taken of scores as they are.

So the cubes of exponentials stay far from the limits of float32, and their sum times the largest
score, which is taken off that of their products with scores, costs no more than four bits.
"""

Better: TypeAlias = tuple[tuple[Integers, Integers], dict[str, Floats]]
"""Heads and rows, and sums over them without a largest exponential, by name."""


class FewRows:
    """Rows of some heads, measured where their scores are; every step loses what came before.

    Parameters
    ----------
    scores, work : array, shape (num_heads, rows, keys)
        Scores, 0 where hidden, and memory of their size.
    sums : Sums
        Where sums of rows are written.
    mean : array of float64, shape (num_heads, rows)
        The mean of what is visible.
    seen : array of int64, shape (num_heads, rows)
        Visible keys.
    hidden : Hidden, optional
        What is not.
    kernels : Kernels
        The library of the scores.
    """

    def __init__(
        self,
        scores: Array,
        work: Array,
        sums: Sums,
        *,
        mean: Floats,
        seen: Integers,
        hidden: Hidden | None,
        kernels: Kernels,
    ) -> None:
        self._scores = scores
        self._work = work
        self._sums = sums
        self._seen = seen
        self._hidden = hidden
        self._kernels = kernels
        self._mean = mean
        self._at = mean  # where the mean of a row stands among its scores, as they are by now
        self._held: Array | None = None  # what stands where scores are hidden, if not 0

    def squares(self) -> Floats | None:
        """Sum squares of scores, find extremes; return what was taken off each row, if anything."""
        kernels, scores, sums = self._kernels, self._scores, self._sums
        kernels.squares(scores, self._work, sums["squares"])
        left = self._mean * self._mean * self._seen
        rounded = None
        if (left > 0.5 * sums.host("squares")).any():
            # Most of the squares would be the mean's, and digits lost with them.
            rounded = kernels.as_array(self._mean, scores)
            kernels.subtract(scores, rounded[..., None], scores)
            if self._hidden is not None:
                self._hidden.leave_out(scores)
            kernels.squares(scores, self._work, sums["squares"])
            self._at = self._mean - host(rounded)
            left = self._at * self._at * self._seen
        kernels.extremes(scores, sums["least"], sums["greatest"])
        if self._hidden is not None and rounded is None and self._may_be_hidden():
            # The mean is neither the least nor the greatest.
            self._held = kernels.as_array(self._mean, scores)
            self._hidden.fill(scores, self._held[..., None])
            kernels.extremes(scores, sums["least"], sums["greatest"])
        self._variance = (sums.host("squares") - left) / np.maximum(self._seen, 1)
        self._about = self._at
        return None if rounded is None else host(rounded)

    def _may_be_hidden(self) -> bool:
        """Tell whether an extreme may be the 0 that stands where scores are hidden."""
        least, greatest = self._sums.host("least"), self._sums.host("greatest")
        return bool(least.max() >= 0.0 or greatest.min() <= 0.0)

    def histogram(self, error: Floats, counter: CodeCounter, out: Array) -> None:
        """Count standardised scores; of a row all of whose are within an error, none.

        They are written over some other memory, or over the scores.
        """
        kernels, scores, sums = self._kernels, self._scores, self._sums
        keys = int(scores.shape[-1])
        counted, variance = self._seen, self._variance
        # So that nothing is divided by 0: a row that sees nothing has no variance.
        flat = variance <= (error / math.log(sums.base)) ** 2
        if flat.any():
            counted = np.where(flat, 0, counted)
            variance = np.where(flat, np.inf, variance)
        inverse = _PER_UNIT / np.sqrt(variance)
        factor = kernels.as_array(inverse, scores)
        column = kernels.as_array(_MIDDLE - self._at * inverse, scores)
        kernels.multiply(scores, factor[..., None], out)
        kernels.add(out, column[..., None])
        least = (sums.host("least") - self._about) * inverse
        greatest = (sums.host("greatest") - self._about) * inverse
        beyond = least.min() < 0.5 - _MIDDLE or greatest.max() > _MIDDLE - 0.5
        if beyond:
            # Whole parts up to this are the last bin's.
            kernels.clip(out, 0.0, HISTOGRAM_BINS - 0.5)
        if self._hidden is None and counted is self._seen:
            counter.add(out)
            return
        # What does not count was computed as all else was, so it is in the bin that it is in here.
        place = to_numpy(column if self._held is None else self._held * factor + column)
        place = np.clip(place, 0.0, HISTOGRAM_BINS - 0.5) if beyond else place
        counter.add(out, less=keys - counted, at=place.astype(np.int64))

    def exponentials(self, *, starts: bool) -> tuple[Floats, list[Better]]:
        """Sum exponentials; return each row's largest number of which one was taken.

        And sums that take the place of others, for rows whose largest dwarfs the others.
        """
        kernels, scores, work, sums = self._kernels, self._scores, self._work, self._sums
        hidden, top = self._hidden, sums.host("greatest")
        if top.max() <= _SMALL and top.min() >= -_SMALL:
            kernels.weights(scores, sums.base, work, sums["greatest"], sums["largest"])
        else:
            kernels.subtract(scores, sums["greatest"][..., None], scores)
            held = 0.0 if self._held is None else self._held
            self._held = held - sums["greatest"]
            self._at, top = self._at - top, np.zeros_like(top)
            kernels.weights(scores, sums.base, work, None, sums["largest"])
        if hidden is not None:
            hidden.leave_out(work)
        sums["first"][...] = work[..., 0] if starts else 0.0
        kernels.sums(work, sums["others"])
        return top, self._dwarfed(top)

    def products(self, spare: Array) -> None:
        """Sum the products of exponentials with scores; some memory is lost."""
        self._kernels.dots(self._work, self._scores, spare, self._sums["weighted_scores"])

    def powers(self) -> None:
        """Sum squares and cubes of exponentials; scores are lost."""
        _powers(self._work, self._scores, self._kernels, self._sums)

    def _dwarfed(self, top: Floats) -> list[Better]:
        # Leaving the largest out costs a pass, and matters only where it dwarfs the others.
        kernels, sums = self._kernels, self._sums
        dwarfs = sums.host("others") < 2.0 * sums.host("largest")
        if not dwarfs.any():
            return []
        heads, rows = where = np.nonzero(dwarfs)
        index = tuple(kernels.as_index(each, self._work) for each in where)
        some, gaps = self._work[index], self._scores[index]
        kernels.zero_largest(some)
        kernels.subtract(gaps, kernels.as_array(top[where], gaps)[:, None], gaps)
        names = ("weighted_gaps", "others", "other_squares", "other_cubes")
        better = kernels.empty((len(names), len(rows)), some)
        found = dict(zip(names, better, strict=True))
        spare = kernels.empty(some.shape, some)
        kernels.dots(some, gaps, spare, found["weighted_gaps"])
        kernels.sums(some, found["others"])
        _powers(some, spare, kernels, found)
        return [((heads, rows), dict(zip(names, host(better), strict=True)))]


def _powers(work: Array, spare: Array, kernels: Kernels, sums: Sums | dict[str, Any]) -> None:
    kernels.multiply(work, work, spare)
    kernels.sums(spare, sums["other_squares"])
    kernels.dots(work, spare, spare, sums["other_cubes"])
