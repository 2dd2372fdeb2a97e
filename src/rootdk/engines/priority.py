"""Pseudo-random numbers that belong to rows themselves, for samples that merge in any order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rootdk.stats.block import Floats, Integers

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_LARGEST = np.int64(2**63 - 2)


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
    bits = (np.ascontiguousarray(query, dtype=np.float64) + 0.0).view(np.uint64)
    position = np.arange(1, query.shape[-1] + 1, dtype=np.uint64)
    entries = _mixed(bits ^ (position * _GOLDEN))
    row = np.sum(entries, axis=-1, dtype=np.uint64) + visible_keys.astype(np.uint64) * _GOLDEN
    return np.minimum((_mixed(row) >> np.uint64(1)).astype(np.int64), _LARGEST)


def _mixed(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Spread every bit over all others: the finaliser of SplitMix64 (Steele et al. 2014)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
