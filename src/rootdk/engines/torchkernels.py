"""Kernels for torch tensors, on any device."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from rootdk._lib.arrays import Array, Dtype, Namespace
from rootdk.engines.hostarrays import contiguous, count
from rootdk.engines.numpykernels import NumpyKernels
from rootdk.stats.block import Floats, Integers


class TorchKernels:
    """Kernels for torch tensors, on any device."""

    @property
    def namespace(self) -> Namespace:
        """Torch's array API namespace."""
        import array_api_compat.torch

        return array_api_compat.torch

    def own(self, array: Array) -> Array:
        """Return the tensor."""
        return array

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

    def ones(self, mask: Array, like: Array) -> Array:
        """Return 1 where a mask is true and 0 elsewhere, row after row, in another's dtype."""
        return mask.to(like.dtype).contiguous()

    def shared(self, array: Array) -> npt.NDArray[Any] | None:
        """Return a NumPy array of the same memory; None on a device of its own."""
        return np.asarray(array.numpy()) if array.device.type == "cpu" else None

    def product(self, left: Array, right: Array, out: Array) -> None:
        """Write the products of the rows of two arrays of matrices."""
        import torch

        torch.matmul(left, right.mT, out=out)

    def multiply(self, left: Array, right: Array, out: Array) -> None:
        """Write products of elements."""
        import torch

        torch.mul(left, right, out=out)

    def add(self, array: Array, other: Array) -> None:
        """Add elements, in place."""
        array.add_(other)

    def sums(self, array: Array, out: Array) -> None:
        """Write the sums along the last dimension."""
        import torch

        torch.sum(array, -1, out=out)

    def squares(self, array: Array, spare: Array, out: Array) -> None:
        """Write the sums of squares along the last dimension; a spare array may be lost."""
        import torch

        if _has_one_thread(array):
            # In one pass.
            NumpyKernels().squares(array.numpy(), spare, out.numpy())
            return
        torch.linalg.vector_norm(array, dim=-1, out=out)
        torch.square(out, out=out)

    def dots(self, left: Array, right: Array, spare: Array, out: Array) -> None:
        """Write the sums of products along the last dimension."""
        import torch

        torch.mul(left, right, out=spare)
        torch.sum(spare, -1, out=out)

    @property
    def dots_need_spare(self) -> bool:
        """Whether sums of products write over the spare memory."""
        return True

    def add_products(self, array: Array, left: Array, right: Array) -> None:
        """Add the products of elements of two arrays to one, in place."""
        array.addcmul_(left, right)

    def extremes(self, array: Array, least: Array, greatest: Array) -> None:
        """Write the least and the greatest along the last dimension."""
        import torch

        torch.amin(array, -1, out=least)
        torch.amax(array, -1, out=greatest)

    def base(self, array: Array) -> float:
        """Return the base of the exponentials that are the quickest for an array: e or 2."""
        return math.e

    def weights(
        self, scores: Array, base: float, out: Array, greatest: Array | None, largest: Array
    ) -> None:
        """Write the softmax of scores, and the largest of it."""
        import torch

        # Quicker than the exponential. What the sum that it divides by is off by is in the
        # largest, too.
        torch.softmax(scores, -1, out=out)
        torch.amax(out, -1, out=largest)

    def clip(self, array: Array, least: float, greatest: float) -> None:
        """Limit elements, in place."""
        array.clamp_(least, greatest)

    def bytes_for(self, shape: tuple[int, ...], like: Array) -> Array:
        """Return memory of one byte for each element, on the device of an array."""
        import torch

        # Signed: torch converts to them in lanes, and codes need seven bits.
        return torch.empty(shape, dtype=torch.int8, device=like.device)

    def codes(self, array: Array, out: Array) -> Array:
        """Write the whole part of numbers from 0 up to HISTOGRAM_BINS to bytes; return them."""
        return out.copy_(array)

    def count_codes(self, codes: Array) -> Integers:
        """Return how often each code occurs, (num_heads, HISTOGRAM_BINS)."""
        import torch

        return np.stack(
            [count(of_head.reshape(-1), torch.bincount, torch.int16) for of_head in codes]
        )

    def zero_largest(self, array: Array) -> None:
        """Write 0 over one largest element along the last dimension."""
        array.scatter_(-1, array.argmax(-1, keepdim=True), 0.0)

    def as_array(self, values: Floats, like: Array) -> Array:
        """Return host values as a tensor on the device and of the dtype of another."""
        import torch

        if like.dtype == torch.float32:  # the common case; NumPy is quicker with a few
            values = values.astype(np.float32, copy=False)
        array = torch.from_numpy(np.ascontiguousarray(values))
        return array if array.dtype == like.dtype and like.device.type == "cpu" else array.to(like)

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


def _has_one_thread(array: Array) -> bool:
    """Tell whether torch computes on a tensor with one thread of the host."""
    import torch

    return bool(array.device.type == "cpu" and torch.get_num_threads() == 1)
