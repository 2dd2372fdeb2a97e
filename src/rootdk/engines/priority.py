"""Pseudo-random numbers that belong to rows themselves, for samples that merge in any order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rootdk.stats.block import Floats, Integers

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_LARGEST = np.int64(2**63 - 2)
_STEPS = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)

_TOGETHER = 2**15
"""Entries that are mixed at once, so that they stay in the cache."""


def priorities(query: Floats, visible_keys: Integers) -> Integers:
    """Return a number from 0 to 2⁶³ − 2 for each row, from its query and its visible keys.

    Parameters
    ----------
    query : array of float64, shape (num_heads, rows, head_dim)
        Exact values of the queries: the same on every engine.
    visible_keys : array of int64, shape (num_heads, rows)
        How many keys the row sees.

    Examples
    --------
    >>> rows = np.asarray([[[1.0, 2.0], [1.0, 2.5], [1.0, 2.0]]])
    >>> numbers = priorities(rows, np.asarray([[7, 7, 7]]))[0]
    >>> bool(numbers[0] == numbers[2]), bool(numbers[0] == numbers[1])
    (True, False)
    """
    entries = np.ascontiguousarray(query, dtype=np.float64)
    position = np.arange(1, query.shape[-1] + 1, dtype=np.uint64) * _GOLDEN
    row = visible_keys.astype(np.uint64) * _GOLDEN
    step = max(_TOGETHER // max(query.shape[0] * query.shape[-1], 1), 1)
    for start in range(0, row.shape[-1], step):
        some = slice(start, start + step)
        # Adding 0 makes one of both zeros.
        bits = (entries[:, some] + 0.0).view(np.uint64)
        bits ^= position
        row[:, some] += np.sum(_mixed(bits), axis=-1, dtype=np.uint64)
    numbers = _mixed(row)
    numbers >>= np.uint64(1)
    return np.minimum(numbers.astype(np.int64), _LARGEST)


def _mixed(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Spread every bit over all, in place: the finaliser of SplitMix64 (Steele et al. 2014)."""
    for shift, factor in _STEPS:
        bits ^= bits >> shift
        bits *= factor
    bits ^= bits >> np.uint64(31)
    return bits
