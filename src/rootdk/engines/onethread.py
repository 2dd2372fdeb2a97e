"""Kernels for tensors in main memory that torch computes on with one thread.

Arrays are NumPy's, whose views cost a tenth of torch's and do not hand the interpreter to another
thread; each pass over scores is done by whichever of the two takes less time for it.
"""

from __future__ import annotations

import math

import numpy as np

from rootdk._lib.arrays import Array, is_torch, to_numpy
from rootdk.engines.numpykernels import NumpyKernels
from rootdk.engines.torchkernels import TorchKernels
from rootdk.stats.block import Integers


class OneThreadKernels(NumpyKernels):
    """Kernels for NumPy arrays, which torch may work on."""

    def __init__(self) -> None:
        import torch

        self._torch = torch
        self._of = torch.from_numpy

    def own(self, array: Array) -> Array:
        """Return a tensor as a NumPy array, of the same memory where it can be."""
        return to_numpy(array) if is_torch(array) else array

    def empty(self, shape: tuple[int, ...], like: Array) -> Array:
        """Return memory of the dtype of another array, aligned as vector registers like it.

        NumPy asks the system for huge pages, where there are any: fewer to fetch, and to find.
        """
        size = math.prod(shape) * like.dtype.itemsize
        memory = np.empty(size + _ALIGNED, dtype=np.uint8)
        start = -memory.ctypes.data % _ALIGNED
        return memory[start : start + size].view(like.dtype).reshape(shape)

    def subtract(self, array: Array, about: Array, out: Array) -> Array:
        """Write a difference to an array of the dtype to compute in, and return it."""
        self._torch.sub(self._of(array), self._of(about), out=self._of(out))
        return out

    def product(self, left: Array, right: Array, out: Array) -> None:
        """Write the products of the rows of two arrays of matrices."""
        # NumPy's would wake its own threads, which then wait in a loop that burns.
        self._torch.matmul(self._of(left), self._of(right).mT, out=self._of(out))

    def multiply(self, left: Array, right: Array, out: Array) -> None:
        """Write products of elements."""
        self._torch.mul(self._of(left), self._of(right), out=self._of(out))

    def add(self, array: Array, other: Array) -> None:
        """Add elements, in place."""
        self._of(array).add_(self._of(other))

    def add_products(self, array: Array, left: Array, right: Array) -> None:
        """Add the products of elements of two arrays to one, in place."""
        self._of(array).addcmul_(self._of(left), self._of(right))

    def sums(self, array: Array, out: Array) -> None:
        """Write the sums along the last dimension."""
        self._torch.sum(self._of(array), -1, out=self._of(out))

    def extremes(self, array: Array, least: Array, greatest: Array) -> None:
        """Write the least and the greatest along the last dimension."""
        whole = self._of(array)
        self._torch.amin(whole, -1, out=self._of(least))
        self._torch.amax(whole, -1, out=self._of(greatest))

    def clip(self, array: Array, least: float, greatest: float) -> None:
        """Limit elements, in place."""
        self._of(array).clamp_(least, greatest)

    def bytes_for(self, shape: tuple[int, ...], like: Array) -> Array:
        """Return memory of one byte for each element."""
        return _TORCH.bytes_for(shape, self._of(like)).numpy()

    def codes(self, array: Array, out: Array) -> Array:
        """Write the whole part of numbers from 0 up to HISTOGRAM_BINS to bytes; return them."""
        self._of(out).copy_(self._of(array))
        return out

    def count_codes(self, codes: Array) -> Integers:
        """Return how often each code occurs, (num_heads, HISTOGRAM_BINS)."""
        return _TORCH.count_codes(self._of(codes))


_TORCH = TorchKernels()

_ALIGNED = 64
"""Bytes of the widest vector register, and of a line of the cache."""
