"""Which diagonal bounds what a mask shows: causal order, and where it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rootdk._lib.arrays import Array, namespace

__all__ = ["Diagonal", "alignment", "diagonal_of", "unseen_keys"]


@dataclass(frozen=True)
class Diagonal:
    """Query i sees the keys up to i + ``offset``; or, ``inverted``, those after it alone."""

    offset: int
    inverted: bool = False


def diagonal_of(mask: Array | None, queries: int, keys: int) -> Diagonal | None:
    """The diagonal that the visible keys follow exactly, the same for every batch and head.

    The first row says which it would have to be, so that one comparison decides.
    """
    if mask is None or tuple(mask.shape[-2:]) != (queries, keys) or queries < 2:
        return None
    xp = namespace(mask)
    flat = mask.reshape((-1, queries, keys)) != 0
    if not flat.shape[0]:
        return None
    first = flat[0]
    seen = int(xp.sum(xp.astype(first[0], xp.int64)))
    if seen == keys:
        return None
    inverted = seen > 0 and not bool(first[0, 0])
    offset = keys - seen - 1 if inverted else seen - 1
    triangle = xp.tril(xp.ones_like(first), k=offset)
    triangle = ~triangle if inverted else triangle
    if bool(xp.all(first == triangle)) and bool(xp.all(flat == triangle)):
        return Diagonal(offset, inverted)
    return None


def alignment(
    diagonal: Diagonal | None, queries: int, keys: int
) -> Literal["top_left", "bottom_right"] | None:
    """The corner from which a diagonal starts, if it is one of the two."""
    if diagonal is None or diagonal.inverted:
        return None
    corners: dict[int, Literal["top_left", "bottom_right"]] = {
        keys - queries: "bottom_right",
        0: "top_left",
    }
    return corners.get(diagonal.offset)


def unseen_keys(diagonal: Diagonal | None, queries: int, key: Array) -> int:
    """How many keys after the last that a query sees hold something; ``key`` is (…, keys, width).

    A cache that has room for more keys than there are holds zeros there.
    """
    if diagonal is None or diagonal.inverted:
        return 0
    rest = key[..., max(queries + diagonal.offset, 0) :, :]
    if 0 in rest.shape:
        return 0
    xp = namespace(rest)
    filled = xp.any((rest != 0).reshape((-1, *rest.shape[-2:])), axis=(0, 2))
    return int(xp.sum(xp.astype(filled, xp.int64)))
