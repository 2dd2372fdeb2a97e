"""The few things done with arrays of any library; what is sampled is looked at with NumPy.

Whole operands stay where they are, in their own library and on their own device. What is
recomputed is a sample of rows: it is brought to the host, in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rootdk._lib.arrays import (
    Array,
    dtype_name,
    float_info,
    is_torch,
    namespace,
    quiet,
    to_numpy,
)

__all__ = [
    "Floats",
    "as_float",
    "chosen",
    "count",
    "doubles",
    "eps_of",
    "expanded",
    "flag",
    "identical",
    "is_float",
    "lifted",
    "norms",
    "not_finite",
    "permuted",
    "picked",
    "plain",
    "products",
    "span",
    "summed",
    "times",
    "turned",
    "wholes",
    "wide",
    "within_reach",
]

Floats = npt.NDArray[np.float64]

_FEW = 2**17
"""Products of entries that NumPy sums on the thread that asks."""

_WHOLE = 2**18
"""Entries that are brought to the host together."""

_FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})


def eps_of(array_or_dtype: Any) -> float:
    """The relative precision of a floating dtype (of float32 for anything else)."""
    name = dtype_name(array_or_dtype)
    return float_info(name if name in _FLOATS else "float32").eps


def is_float(array_or_dtype: Any) -> bool:
    """Whether the entries are real floating-point numbers."""
    return dtype_name(array_or_dtype).startswith(("float", "bfloat"))


def count(array: Array) -> int:
    """The number of entries."""
    return math.prod(array.shape)


def plain(array: Array) -> Array:
    """The array outside any gradient."""
    return array.detach() if is_torch(array) else array


def doubles(array: Array) -> Floats:
    """The entries on the host, in float64."""
    return to_numpy(array).astype(np.float64, copy=False)


def wholes(array: Array) -> Callable[[tuple[int, ...]], Floats]:
    """Return what gives parts of an array on the host, in float64, one after the other.

    Of few entries all are copied, in the order in which they lie: parts may lie interleaved, and
    going through one would wait for memory at each row. Of more, each part is written over the one
    before: new memory for each would cost as much as the copy.
    """
    at_hand = within_reach(array)
    if count(array) <= _WHOLE:
        whole = doubles(at_hand)
        return lambda place: whole[place]
    held: dict[tuple[int, ...], Floats] = {}

    def part(place: tuple[int, ...]) -> Floats:
        found = to_numpy(at_hand[place])
        shape = found.shape
        if shape not in held:
            held[shape] = np.empty(shape)
        held[shape][...] = found
        return held[shape]

    return part


def within_reach(array: Array) -> Array:
    """The array as NumPy sees it where it is, if it can; parts of that are had for nothing."""
    if is_torch(array) and array.device.type == "cpu" and dtype_name(array) in _EXACT:
        return to_numpy(array)
    return array


_EXACT = frozenset({"float32", "float64", "bool"})


def picked(array: Array, places: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[Any]:
    """The entries at index arrays that broadcast together: booleans, or else float64."""
    array = within_reach(array)
    if _are_rows(places, tuple(array.shape)):
        # Whole rows, which are had for a fraction of what their entries cost one by one.
        places = [at[:, 0] for at in places[:-1]]
    if isinstance(array, np.ndarray):
        return _hosted(array[tuple(places)])
    if not places:
        return _hosted(array)
    xp = namespace(array)
    return _hosted(array[tuple(xp.asarray(at, device=array.device) for at in places)])


def _are_rows(places: Sequence[npt.NDArray[np.int64]], shape: tuple[int, ...]) -> bool:
    """Tell whether places are one for each row, and all along it in order."""
    if not 1 < len(places) == len(shape) or any(at.ndim != 2 for at in places):
        return False
    *leading, last = places
    along = last.shape == (1, shape[-1]) and all(at.shape[1] == 1 for at in leading)
    return along and bool(np.array_equal(last[0], np.arange(shape[-1])))


def _hosted(array: Array) -> npt.NDArray[Any]:
    out = to_numpy(array)
    return out if out.dtype == np.bool_ else out.astype(np.float64, copy=False)


def lifted(array: Array, rank: int) -> Array:
    """The array with axes of size 1 in front, up to ``rank``."""
    missing = rank - len(array.shape)
    return array.reshape((1,) * missing + tuple(array.shape)) if missing > 0 else array


def permuted(array: Array, order: Sequence[int]) -> Array:
    """The axes in another order."""
    return namespace(array).permute_dims(array, tuple(order))


def expanded(array: Array, shape: Sequence[int]) -> Array:
    """The array broadcast to a shape; no entry is copied."""
    return namespace(array).broadcast_to(array, tuple(shape))


def turned(array: Array) -> Array:
    """The last two axes the other way round."""
    rank = len(array.shape)
    return permuted(array, (*range(rank - 2), rank - 1, rank - 2))


def summed(array: Array, axis: int) -> Array:
    """The sum over an axis, of half types in float32."""
    xp = namespace(array)
    half = dtype_name(array) in {"float16", "bfloat16"}
    return xp.sum(array, axis=axis, dtype=xp.float32 if half else array.dtype)


def not_finite(array: Array) -> int:
    """How many entries are NaN or infinite."""
    xp = namespace(array)
    with quiet():
        # What is not finite leaves no finite sum: one pass, where counting takes five.
        if is_float(array) and math.isfinite(float(xp.sum(array))):
            return 0
    return count(array) - int(xp.sum(xp.astype(xp.isfinite(array), xp.int64)))


def span(array: Array) -> tuple[float, float]:
    """The smallest and the largest entry; NaN where any is NaN."""
    xp = namespace(array)
    return float(xp.min(array)), float(xp.max(array))


def identical(one: Array, two: Array) -> bool:
    """Whether two arrays of one shape and dtype hold the same numbers, and no NaN."""
    return bool(one.equal(two)) if is_torch(one) else flag(one == two)


def norms(vectors: Floats) -> Floats:
    """The Euclidean norms along the last axis."""
    return np.asarray(np.sqrt(np.vecdot(vectors, vectors)))


def products(one: Floats, two: Floats, like: Array) -> Floats:
    """The matrix product, by the library of ``like``.

    NumPy's threads and those of another library would stand in each other's way: each waits for
    work in a loop that burns, long after its last product.
    """
    if not is_torch(like) or one.shape[0] * two.size <= _FEW:
        return np.asarray(one @ two)
    xp = namespace(like)
    sides = (xp.asarray(side, device="cpu") for side in (one, two))
    return np.asarray(xp.matmul(*sides))


def wide(array: Array) -> Array:
    """The entries in float64, where they are if that can hold them, or else on the host."""
    here = isinstance(array, np.ndarray) or (is_torch(array) and array.device.type != "mps")
    xp = namespace(array)
    return xp.astype(array, xp.float64) if here else doubles(array)


def chosen(condition: Array, value: float, otherwise: Array) -> Array:
    """The number where a condition holds, and the array's own entries elsewhere, in its dtype."""
    xp = namespace(otherwise)
    return xp.where(condition, xp.asarray(value, dtype=otherwise.dtype), otherwise)


def times(array: Array, number: float) -> Array:
    """The array times a number, in its own dtype."""
    if is_torch(array):
        return array * number
    return array * namespace(array).asarray(number, dtype=array.dtype)


def as_float(array: Array) -> Array:
    """The entries in float32."""
    xp = namespace(array)
    return xp.astype(array, xp.float32)


def flag(array: Array) -> bool:
    """Whether every entry of a boolean array is True."""
    return bool(namespace(array).all(array))
