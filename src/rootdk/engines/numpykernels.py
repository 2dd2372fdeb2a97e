"""Kernels for NumPy arrays."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import array_api_compat.numpy
import numpy as np
import numpy.typing as npt

from rootdk._lib.arrays import Array, Dtype, Namespace
from rootdk.engines.hostarrays import contiguous, count
from rootdk.stats.block import HISTOGRAM_BINS, Floats, Integers

_ONE_DOT = 4096
"""Elements whose products one vecdot adds: of more, it would lose digits, and ask for threads."""


class NumpyKernels:
    """Kernels for NumPy arrays."""

    @property
    def namespace(self) -> Namespace:
        """NumPy's array API namespace."""
        return array_api_compat.numpy

    def own(self, array: Array) -> Array:
        """Return the array."""
        return array

    def dot(self, left: Array, right: Array) -> Array:
        """Return the sums of products along the last dimension."""
        # Not vecdot: it may add float32 in one long chain, and lose digits over many keys.
        return np.sum(left * right, axis=-1)

    def subtract(self, array: Array, about: Array, out: Array) -> Array:
        """Write a difference to an array of the dtype to compute in, and return it."""
        return np.subtract(array, about, out=out, dtype=out.dtype)

    def empty(self, shape: tuple[int, ...], like: Array) -> Array:
        """Return memory of the dtype of another array."""
        return np.empty(shape, dtype=like.dtype)

    def ones(self, mask: Array, like: Array) -> Array:
        """Return 1 where a mask is true and 0 elsewhere, row after row, in another's dtype."""
        return np.ascontiguousarray(mask, dtype=like.dtype)

    def shared(self, array: Array) -> npt.NDArray[Any] | None:
        """Return the array."""
        return np.asarray(array)

    def product(self, left: Array, right: Array, out: Array) -> None:
        """Write the products of the rows of two arrays of matrices."""
        np.matmul(left, right.mT, out=out)

    def multiply(self, left: Array, right: Array, out: Array) -> None:
        """Write products of elements."""
        np.multiply(left, right, out=out)

    def add(self, array: Array, other: Array) -> None:
        """Add elements, in place."""
        array += other

    def sums(self, array: Array, out: Array) -> None:
        """Write the sums along the last dimension."""
        np.sum(array, axis=-1, out=out)

    def squares(self, array: Array, spare: Array, out: Array) -> None:
        """Write the sums of squares along the last dimension; a spare array may be lost."""
        self.dots(array, array, spare, out)

    def dots(self, left: Array, right: Array, spare: Array, out: Array) -> None:
        """Write the sums of products along the last dimension."""
        np.vecdot(left[..., :_ONE_DOT], right[..., :_ONE_DOT], out=out)
        for start in range(_ONE_DOT, left.shape[-1], _ONE_DOT):
            some = slice(start, start + _ONE_DOT)
            out += np.vecdot(left[..., some], right[..., some])

    @property
    def dots_need_spare(self) -> bool:
        """Whether sums of products write over the spare memory."""
        return False

    def add_products(self, array: Array, left: Array, right: Array) -> None:
        """Add the products of elements of two arrays to one, in place."""
        array += left * right

    def extremes(self, array: Array, least: Array, greatest: Array) -> None:
        """Write the least and the greatest along the last dimension."""
        np.min(array, axis=-1, out=least)
        np.max(array, axis=-1, out=greatest)

    def base(self, array: Array) -> float:
        """Return the base of the exponentials that are the quickest for an array: e or 2."""
        return 2.0 if array.dtype == np.float32 and _has_lanes("exp2") else math.e

    def weights(
        self, scores: Array, base: float, out: Array, greatest: Array | None, largest: Array
    ) -> None:
        """Write the exponentials of scores, and the largest of them."""
        power = np.exp2 if base == 2.0 else np.exp
        power(scores, out=out)
        largest[...] = 1.0 if greatest is None else power(greatest)

    def clip(self, array: Array, least: float, greatest: float) -> None:
        """Limit elements, in place."""
        np.clip(array, least, greatest, out=array)

    def bytes_for(self, shape: tuple[int, ...], like: Array) -> Array:
        """Return memory of one byte for each element."""
        return np.empty(shape, dtype=np.uint8)

    def codes(self, array: Array, out: Array) -> Array:
        """Write the whole part of numbers from 0 up to HISTOGRAM_BINS to bytes; return them."""
        np.copyto(out, array, casting="unsafe")
        return out

    def count_codes(self, codes: Array) -> Integers:
        """Return how often each code occurs, (num_heads, HISTOGRAM_BINS)."""
        counted = [count(of_head.reshape(-1), np.bincount, np.int16) for of_head in codes]
        return np.asarray(counted, dtype=np.int64).reshape(-1, HISTOGRAM_BINS)

    def zero_largest(self, array: Array) -> None:
        """Write 0 over one largest element along the last dimension."""
        np.put_along_axis(array, np.argmax(array, axis=-1, keepdims=True), 0.0, axis=-1)

    def as_array(self, values: Floats, like: Array) -> Array:
        """Return host values as an array of the dtype of another."""
        return values.astype(like.dtype)

    def as_index(self, indices: Integers, like: Array) -> Array:
        """Return indices as they are."""
        return indices

    def select(self, array: Array, indices: Integers, dimension: int) -> Array:
        """Return the given indices along a dimension; a view where they are contiguous."""
        span = contiguous(indices)
        chosen: Any = indices if span is None else span
        return array[(*(slice(None),) * dimension, chosen)]

    def dtype(self, name: str) -> Dtype:
        """Return the dtype of that name."""
        return np.dtype(name)


@cache
def _has_lanes(function: str) -> bool:
    """Tell whether NumPy computes a function of float32 on more than one number at a time."""
    try:
        from numpy.lib.introspect import opt_func_info

        found = opt_func_info(func_name=f"^{function}$", signature="float32")
        return not any(each["current"].startswith("baseline") for each in found[function].values())
    except (ImportError, KeyError):  # older NumPy does not say
        return False
