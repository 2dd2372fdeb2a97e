"""An einsum of two tensors as one matrix product between permutations and reshapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Plan", "planned"]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How each operand is permuted and reshaped, and how the product becomes the result.

    ``result_order`` permutes the result to (batch…, rows…, columns…), of sizes
    ``result_shape``; merged it is the matrix product, of ``product_shape``.
    """

    orders: tuple[tuple[int, ...], tuple[int, ...]]
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    product_shape: tuple[int, ...]
    result_order: tuple[int, ...]
    result_shape: tuple[int, ...]


def planned(equation: str, shapes: Sequence[tuple[int, ...]]) -> Plan | None:
    """Return the plan of an equation; None where it is no plain product of two.

    Examples
    --------
    >>> plan = planned("bqhd,bkhd->bhqk", [(2, 5, 4, 8), (2, 7, 4, 8)])
    >>> plan.orders, plan.shapes, plan.product_shape
    (((0, 2, 1, 3), (0, 2, 3, 1)), ((2, 4, 5, 8), (2, 4, 8, 7)), (2, 4, 5, 7))
    """
    left, arrow, result = equation.replace(" ", "").partition("->")
    operands = left.split(",")
    if not arrow or len(operands) != 2 or "." in left:
        return None
    one, two = operands
    repeated = any(len(set(names)) != len(names) for names in (one, two, result))
    sizes = dict(zip(two, shapes[1], strict=False)) | dict(zip(one, shapes[0], strict=False))
    broadcast = any(
        sizes[name] != size
        for names, shape in zip(operands, shapes, strict=True)
        for name, size in zip(names, shape, strict=True)
    )
    if repeated or broadcast or not set(result) <= set(one) | set(two):
        return None
    batch = [n for n in result if n in one and n in two]
    summed = [n for n in one if n in two and n not in result]
    rows = [n for n in result if n in one and n not in two]
    columns = [n for n in result if n in two and n not in one]
    alone = (set(one) | set(two)) - {*batch, *summed, *rows, *columns}
    if alone or not summed:
        return None

    def size(names: Sequence[str]) -> int:
        return math.prod(sizes[name] for name in names)

    leading = tuple(sizes[name] for name in batch)
    return Plan(
        orders=(
            tuple(one.index(n) for n in (*batch, *rows, *summed)),
            tuple(two.index(n) for n in (*batch, *summed, *columns)),
        ),
        shapes=(
            (*leading, size(rows), size(summed)),
            (*leading, size(summed), size(columns)),
        ),
        product_shape=(*leading, size(rows), size(columns)),
        result_order=tuple(result.index(n) for n in (*batch, *rows, *columns)),
        result_shape=tuple(sizes[n] for n in (*batch, *rows, *columns)),
    )
