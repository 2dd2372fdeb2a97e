"""What every library's kernels share: indices, counts, and the way to the host."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from rootdk._lib.arrays import Array, to_numpy
from rootdk.stats.block import HISTOGRAM_BINS, Floats, Integers

_PAIRING = 2**16
"""Codes from which the table of pairs is worth its size."""


def count(codes: Array, bincount: Any, int16: Any) -> Integers:
    """Count codes with the bincount of their library."""
    if codes.shape[0] < _PAIRING or codes.shape[0] % 2:
        return to_numpy(bincount(codes, minlength=HISTOGRAM_BINS))
    # Two codes at a time, as one number of 16 bits: half as many steps of a serial loop.
    pairs = to_numpy(bincount(codes.view(int16), minlength=256 * HISTOGRAM_BINS))
    table = pairs.reshape(HISTOGRAM_BINS, 256)[:, :HISTOGRAM_BINS]
    return np.asarray(table.sum(axis=0) + table.sum(axis=1))


def contiguous(indices: Integers) -> slice | None:
    """Return ascending, distinct indices as a slice, if they have no gap.

    Examples
    --------
    >>> contiguous(np.asarray([3, 4, 5])), contiguous(np.asarray([3, 5]))
    (slice(3, 6, None), None)
    """
    if not len(indices):
        return slice(0, 0)
    start, stop = int(indices[0]), int(indices[-1]) + 1
    return slice(start, stop) if stop - start == len(indices) else None


def by_head(heads: Integers) -> Iterator[tuple[int, slice]]:
    """Yield each of ascending heads once, and where it stands.

    Examples
    --------
    >>> list(by_head(np.asarray([2, 2, 5])))
    [(2, slice(0, 2, None)), (5, slice(2, 3, None))]
    """
    ends = [0, *(np.flatnonzero(np.diff(heads)) + 1).tolist(), len(heads)]
    for start, stop in itertools.pairwise(ends):
        if start < stop:
            yield int(heads[start]), slice(start, stop)


def smallest_first(parts: Iterable[Floats], rows: int, most: int) -> Floats:
    """Return so many of the numbers of each row, as float64; NaN where a row has fewer.

    The rows come some at a time, in order; they may be left in another.

    Examples
    --------
    >>> smallest_first([np.asarray([[1.0, 3.0, 2.0]]), np.asarray([[4.0]])], 2, 2).tolist()
    [[1.0, 2.0], [4.0, nan]]
    """
    found, start = np.empty((rows, most)), 0
    for part in parts:
        many = part.shape[-1]
        if many > 2 * most:  # sorting all takes longer
            part.partition(most - 1)
            part = part[:, :most]
        part.sort()
        of_part = found[start : start + len(part)]
        of_part[:, :many] = part[:, :most]
        of_part[:, many:] = np.nan
        start += len(part)
    return found


def host(array: Array) -> Floats:
    """Return an array of any library as float64, on the host."""
    return to_numpy(array).astype(np.float64)
