"""The few operations that differ between libraries, for arrays of (num_heads, rows, keys)."""

from __future__ import annotations

from typing import Any, Protocol

import numpy.typing as npt

from rootdk._lib.arrays import Array, Dtype, Namespace, is_torch
from rootdk.engines.numpykernels import NumpyKernels
from rootdk.engines.torchkernels import TorchKernels
from rootdk.stats.block import Floats, Integers


class Kernels(Protocol):
    """What a block asks of its library beside the array API."""

    @property
    def namespace(self) -> Namespace:
        """The array API namespace of the library."""
        ...

    def own(self, array: Array) -> Array:
        """Return an array as the others take it, of the same values and mostly the same memory."""
        ...

    def dot(self, left: Array, right: Array) -> Array:
        """Return the sums of products along the last dimension."""
        ...

    def subtract(self, array: Array, about: Array, out: Array) -> Array:
        """Write a difference to an array of the dtype to compute in, and return it."""
        ...

    def empty(self, shape: tuple[int, ...], like: Array) -> Array:
        """Return memory on the device and of the dtype of another array."""
        ...

    def ones(self, mask: Array, like: Array) -> Array:
        """Return 1 where a mask is true and 0 elsewhere, row after row, in another's dtype."""
        ...

    def shared(self, array: Array) -> npt.NDArray[Any] | None:
        """Return a NumPy array of the same memory; None on a device of its own."""
        ...

    def product(self, left: Array, right: Array, out: Array) -> None:
        """Write the products of the rows of two arrays of matrices."""
        ...

    def multiply(self, left: Array, right: Array, out: Array) -> None:
        """Write products of elements."""
        ...

    def add(self, array: Array, other: Array) -> None:
        """Add elements, in place."""
        ...

    def sums(self, array: Array, out: Array) -> None:
        """Write the sums along the last dimension."""
        ...

    def squares(self, array: Array, spare: Array, out: Array) -> None:
        """Write the sums of squares along the last dimension; a spare array may be lost."""
        ...

    def dots(self, left: Array, right: Array, spare: Array, out: Array) -> None:
        """Write the sums of products along the last dimension; a spare array may be lost.

        It may be one of the two.
        """
        ...

    @property
    def dots_need_spare(self) -> bool:
        """Whether sums of products write over the spare memory."""
        ...

    def add_products(self, array: Array, left: Array, right: Array) -> None:
        """Add the products of elements of two arrays to one, in place."""
        ...

    def extremes(self, array: Array, least: Array, greatest: Array) -> None:
        """Write the least and the greatest along the last dimension."""
        ...

    def base(self, array: Array) -> float:
        """Return the base of the exponentials that are the quickest for an array: e or 2."""
        ...

    def weights(
        self, scores: Array, base: float, out: Array, greatest: Array | None, largest: Array
    ) -> None:
        """Write the exponentials of scores times any number for each row, and the largest of them.

        The greatest score of each row is given, or it is 0, or what is written for the row means
        nothing.
        """
        ...

    def clip(self, array: Array, least: float, greatest: float) -> None:
        """Limit elements, in place."""
        ...

    def bytes_for(self, shape: tuple[int, ...], like: Array) -> Array:
        """Return memory of one byte for each element, where an array is."""
        ...

    def codes(self, array: Array, out: Array) -> Array:
        """Write the whole part of numbers from 0 up to HISTOGRAM_BINS to bytes; return them."""
        ...

    def count_codes(self, codes: Array) -> Integers:
        """Return how often each code occurs, (num_heads, HISTOGRAM_BINS)."""
        ...

    def zero_largest(self, array: Array) -> None:
        """Write 0 over one largest element along the last dimension."""
        ...

    def as_array(self, values: Floats, like: Array) -> Array:
        """Return host values as an array on the device and of the dtype of another."""
        ...

    def as_index(self, indices: Integers, like: Array) -> Array:
        """Return indices as the library takes them, on the device of an array."""
        ...

    def select(self, array: Array, indices: Integers, dimension: int) -> Array:
        """Return the given indices along a dimension; a view where they are contiguous."""
        ...

    def dtype(self, name: str) -> Dtype:
        """Return the library's dtype of that name."""
        ...


def kernels_of(array: Array) -> Kernels:
    """Return the kernels of the library that an array belongs to."""
    return TorchKernels() if is_torch(array) else NumpyKernels()
