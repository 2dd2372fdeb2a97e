"""From the layouts that people store to (batch, heads, positions, width)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rootdk._lib.errors import ArgumentError, ShapeError

__all__ = ["LAYOUTS", "four_dimensions", "scores_like"]

LAYOUTS = ("bhsd", "bshd", "bsd")
"""b is the batch, h heads, s positions, d the width of a head; in ``bsd`` all heads' widths."""


def four_dimensions(
    array: npt.NDArray[Any], layout: str, heads: int | None, where: str
) -> npt.NDArray[Any]:
    """Return an array as (batch, heads, positions, width), of however many dimensions it has.

    What is missing is missing from the front: batch first, then heads.

    Raises
    ------
    ShapeError, ArgumentError
        If the layout is unknown, or the array does not have it.

    Examples
    --------
    >>> four_dimensions(np.zeros((5, 8, 64)), "bshd", None, "q").shape
    (1, 8, 5, 64)
    >>> four_dimensions(np.zeros((2, 5, 512)), "bsd", 8, "q").shape
    (2, 8, 5, 64)
    """
    if layout not in LAYOUTS:
        raise ArgumentError.unexpected(f"the layout of {where}", layout, f"one of {_listed()}")
    most = 3 if layout == "bsd" else 4
    if not 2 <= array.ndim <= most:
        raise ShapeError(
            f"{where} has the shape {array.shape}; expected 2 to {most} dimensions ({layout})"
        )
    if layout == "bsd":
        return _split(array, heads, where)
    if layout == "bshd" and array.ndim > 2:
        array = np.swapaxes(array, -3, -2)
    return array.reshape((1,) * (4 - array.ndim) + array.shape)


def scores_like(array: npt.NDArray[Any], where: str) -> npt.NDArray[Any]:
    """Return weights, a mask or a bias as (batch, heads, queries, keys); ones stand in front."""
    if not 1 <= array.ndim <= 4:
        raise ShapeError(
            f"{where} has the shape {array.shape}; "
            "expected up to 4 dimensions (batch, heads, queries, keys)"
        )
    return array.reshape((1,) * (4 - array.ndim) + array.shape)


def _split(array: npt.NDArray[Any], heads: int | None, where: str) -> npt.NDArray[Any]:
    width = array.shape[-1]
    if heads is None:
        raise ShapeError(
            f"{where} has all heads side by side (bsd), and how many is not stored; "
            "expected num_heads beside it"
        )
    if width % heads:
        raise ShapeError(
            f"{where} has a width of {width}; expected a multiple of its {heads} heads"
        )
    array = array.reshape((1,) * (3 - array.ndim) + array.shape)
    batch, positions, _ = array.shape
    return array.reshape(batch, positions, heads, width // heads).transpose(0, 2, 1, 3)


def _listed() -> str:
    return ", ".join(LAYOUTS)
