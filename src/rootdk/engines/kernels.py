"""The few operations that differ between libraries, for arrays of (num_heads, rows, keys)."""

from __future__ import annotations

from typing import Any, Protocol

import array_api_compat.numpy
import numpy as np

from rootdk._lib.arrays import Array, Dtype, Namespace, is_torch, to_numpy
from rootdk.stats.block import HISTOGRAM_BINS, Floats, Integers


class Kernels(Protocol):
    """What a block asks of its library beside the array API."""

    @property
    def namespace(self) -> Namespace:
        """The array API namespace of the library."""
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

    def product(self, left: Array, right: Array, out: Array) -> None:
        """Write the products of the rows of two arrays of matrices."""
        ...

    def multiply(self, left: Array, right: Array, out: Array) -> None:
        """Write products of elements."""
        ...

    def squares(self, array: Array, spare: Array) -> Array:
        """Return the sums of squares along the last dimension; a spare array may be written to."""
        ...

    def exponential(self, array: Array, out: Array) -> None:
        """Write exponentials."""
        ...

    def clip(self, array: Array, least: float, greatest: float) -> None:
        """Limit elements, in place."""
        ...

    def bytes_for(self, array: Array) -> Array:
        """Return memory of one byte for each element, where the array is."""
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


class NumpyKernels:
    """Kernels for NumPy arrays."""

    @property
    def namespace(self) -> Namespace:
        """NumPy's array API namespace."""
        return array_api_compat.numpy

    def dot(self, left: Array, right: Array) -> Array:
        """Return the sums of products along the last dimension."""
        # Not vecdot: it adds float32 in one long chain, and loses digits over many keys.
        return np.sum(left * right, axis=-1)

    def subtract(self, array: Array, about: Array, out: Array) -> Array:
        """Write a difference to an array of the dtype to compute in, and return it."""
        return np.subtract(array, about, out=out, dtype=out.dtype)

    def empty(self, shape: tuple[int, ...], like: Array) -> Array:
        """Return memory of the dtype of another array."""
        return np.empty(shape, dtype=like.dtype)

    def product(self, left: Array, right: Array, out: Array) -> None:
        """Write the products of the rows of two arrays of matrices."""
        np.matmul(left, right.mT, out=out)

    def multiply(self, left: Array, right: Array, out: Array) -> None:
        """Write products of elements."""
        np.multiply(left, right, out=out)

    def exponential(self, array: Array, out: Array) -> None:
        """Write exponentials."""
        np.exp(array, out=out)

    def squares(self, array: Array, spare: Array) -> Array:
        """Return the sums of squares along the last dimension; a spare array may be written to."""
        np.multiply(array, array, out=spare)
        return np.sum(spare, axis=-1)

    def clip(self, array: Array, least: float, greatest: float) -> None:
        """Limit elements, in place."""
        np.clip(array, least, greatest, out=array)

    def bytes_for(self, array: Array) -> Array:
        """Return memory of one byte for each element."""
        return np.empty(array.shape, dtype=np.uint8)

    def codes(self, array: Array, out: Array) -> Array:
        """Write the whole part of numbers from 0 up to HISTOGRAM_BINS to bytes; return them."""
        np.copyto(out, array, casting="unsafe")
        return out

    def count_codes(self, codes: Array) -> Integers:
        """Return how often each code occurs, (num_heads, HISTOGRAM_BINS)."""
        counted = [_count(of_head.reshape(-1), np.bincount) for of_head in codes]
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


class TorchKernels:
    """Kernels for torch tensors, on any device."""

    @property
    def namespace(self) -> Namespace:
        """Torch's array API namespace."""
        import array_api_compat.torch

        return array_api_compat.torch

    def dot(self, left: Array, right: Array) -> Array:
        """Return the sums of products along the last dimension."""
        import torch

        return torch.linalg.vecdot(left, right)

    def subtract(self, array: Array, about: Array, out: Array) -> Array:
        """Write a difference to an array of the dtype to compute in, and return it."""
        import torch

        return torch.sub(array, about, out=out)

    def empty(self, shape: tuple[int, ...], like: Array) -> Array:
        """Return memory on the device and of the dtype of another array."""
        return like.new_empty(shape)

    def product(self, left: Array, right: Array, out: Array) -> None:
        """Write the products of the rows of two arrays of matrices."""
        import torch

        torch.matmul(left, right.mT, out=out)

    def multiply(self, left: Array, right: Array, out: Array) -> None:
        """Write products of elements."""
        import torch

        torch.mul(left, right, out=out)

    def squares(self, array: Array, spare: Array) -> Array:
        """Return the sums of squares along the last dimension; a spare array may be written to."""
        import torch

        return torch.linalg.vector_norm(array, dim=-1) ** 2

    def exponential(self, array: Array, out: Array) -> None:
        """Write exponentials."""
        import torch

        if array.device.type == "cpu" and torch.get_num_threads() <= _FEW:
            # NumPy's is twice as quick, and runs on one thread.
            np.exp(array.numpy(), out=out.numpy())
        else:
            torch.exp(array, out=out)

    def clip(self, array: Array, least: float, greatest: float) -> None:
        """Limit elements, in place."""
        array.clamp_(least, greatest)

    def bytes_for(self, array: Array) -> Array:
        """Return memory of one byte for each element, on the device of an array."""
        import torch

        return torch.empty(array.shape, dtype=torch.uint8, device=array.device)

    def codes(self, array: Array, out: Array) -> Array:
        """Write the whole part of numbers from 0 up to HISTOGRAM_BINS to bytes; return them."""
        if array.device.type == "cpu":
            # NumPy does it in lanes.
            np.copyto(out.numpy(), array.numpy(), casting="unsafe")
            return out
        return out.copy_(array)

    def count_codes(self, codes: Array) -> Integers:
        """Return how often each code occurs, (num_heads, HISTOGRAM_BINS)."""
        import torch

        return np.stack([_count(of_head.reshape(-1), torch.bincount) for of_head in codes])

    def zero_largest(self, array: Array) -> None:
        """Write 0 over one largest element along the last dimension."""
        array.scatter_(-1, array.argmax(-1, keepdim=True), 0.0)

    def as_array(self, values: Floats, like: Array) -> Array:
        """Return host values as a tensor on the device and of the dtype of another."""
        import torch

        return torch.from_numpy(np.ascontiguousarray(values)).to(like.device, like.dtype)

    def as_index(self, indices: Integers, like: Array) -> Array:
        """Return indices as a tensor on the device of another."""
        import torch

        return torch.from_numpy(indices).to(like.device)

    def select(self, array: Array, indices: Integers, dimension: int) -> Array:
        """Return the given indices along a dimension; a view where they are contiguous."""
        import torch

        span = contiguous(indices)
        if span is not None:
            return array.narrow(dimension, span.start, span.stop - span.start)
        return array.index_select(dimension, torch.from_numpy(indices).to(array.device))

    def dtype(self, name: str) -> Dtype:
        """Return the dtype of that name."""
        import torch

        return getattr(torch, name)


def kernels_of(array: Array) -> Kernels:
    """Return the kernels of the library that an array belongs to."""
    return TorchKernels() if is_torch(array) else NumpyKernels()


_FEW = 2
"""Threads of torch up to which one of NumPy is as quick."""

_PAIRING = 2**16
"""Codes from which the table of pairs is worth its size."""


def _count(codes: Array, bincount: Any) -> Integers:
    """Count codes with the bincount of their library."""
    if codes.shape[0] < _PAIRING or codes.shape[0] % 2:
        return to_numpy(bincount(codes, minlength=HISTOGRAM_BINS))
    # Two codes at a time, as one number of 16 bits: half as many steps of a serial loop.
    namespace = kernels_of(codes).namespace
    pairs = to_numpy(bincount(codes.view(namespace.int16), minlength=256 * HISTOGRAM_BINS))
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


def host(array: Array) -> Floats:
    """Return an array of any library as float64, on the host."""
    return to_numpy(array).astype(np.float64)
