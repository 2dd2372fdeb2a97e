"""What a mask writes into the scores that it forbids, and what that number can do."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rootdk._lib.arrays import float_info
from rootdk.records import Addend, AttentionSite

__all__ = ["LARGEST_LEAK", "finite_fill", "masks", "stands_for_infinity"]

LARGEST_LEAK = 1e-6
"""A weight on a forbidden key above this is a leak; a fill that works leaves exactly 0."""


def masks(site: AttentionSite) -> Iterator[Addend]:
    """Yield what forbids keys before the softmax."""
    return (addend for addend in site.addends if addend.kind == "mask")


def finite_fill(addend: Addend) -> float | None:
    """Return the fill if it is known and finite."""
    if addend.fill is None or not math.isfinite(addend.fill):
        return None
    return addend.fill


def stands_for_infinity(fill: float, site: AttentionSite) -> bool:
    """Tell whether a fill is the lowest number of a dtype, which libraries use as -inf.

    The lowest number of float16, -65504, counts only for scores in float16.
    """
    lowest_of_half = -float_info("float16").max
    in_half = site.score_dtype == "float16" and fill <= (1.0 - 1e-2) * lowest_of_half
    return in_half or fill <= _NO_SCORE_REACHES


_NO_SCORE_REACHES = -1e30
