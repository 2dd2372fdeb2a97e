"""Products with quantised weights: packed ones, and small integers that are scaled back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from rootdk.frontends._torch.table import Lowered, entry, tensors_of

__all__ = ["PACKED", "holds_weights", "packed_product"]

PACKED = "packed"
"""The attribute of a product whose weight is an object that is no tensor."""

_NAMESPACES = ("quantized::", "onednn::")
_BYTES = frozenset({torch.int8, torch.uint8})


def packed_product(name: str, args: Sequence[Any], out: Any) -> Lowered | None:
    """A linear map whose weights are packed, if its outcome is plain numbers again; or None.

    ``name`` has its namespace. What stays quantised has a scale of its own, which nothing shows.
    """
    if not name.startswith(_NAMESPACES) or not name.split("::")[1].startswith("linear"):
        return None
    plain = isinstance(out, torch.Tensor) and out.is_floating_point()
    if not plain or not args or not isinstance(args[0], torch.Tensor):
        return None
    return Lowered("linear", [args[0]], {"name": name, PACKED: True})


def holds_weights(tensor: torch.Tensor) -> bool:
    """Whether a buffer is a matrix of quantised weights: one byte each, and no truth values."""
    if tensor.dim() < 2 or not tensor.numel() or tensor.device.type == "meta":
        return False
    dtype = tensor.dtype
    if dtype.is_floating_point or dtype.is_complex:
        return dtype.itemsize == 1
    if dtype not in _BYTES:
        return False
    low, high = torch.aminmax(tensor)
    return bool(low < 0) or bool(high > 1)


@entry(
    "_weight_int8pack_mm",
    "_weight_int4pack_mm",
    "_weight_int4pack_mm_for_cpu",
    "_weight_int4pack_mm_with_scales_and_zeros",
    "_dyn_quant_matmul_4bit",
    "_scaled_mm",
    "_int_mm",
)
def _quantised_product(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    return Lowered("linear", tensors_of(args, kwargs))
