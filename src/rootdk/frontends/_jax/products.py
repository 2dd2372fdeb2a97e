"""``dot_general`` as one product of matrices between changes of shape."""

from __future__ import annotations

from math import prod

import numpy as np

from rootdk.frontends._jax.layout import moved, reshaped
from rootdk.frontends._jax.step import Step, entry
from rootdk.frontends._jax.tape import Value

__all__: list[str] = []


@entry("dot_general")
def _dot_general(step: Step) -> list[Value]:
    """(batch…, rows, depth) times (batch…, depth, columns), whatever the axes are called."""
    left, right = step.values
    (left_depth, right_depth), (left_batch, right_batch) = step.params["dimension_numbers"]
    if left.host is None or right.host is None or not left_depth:
        return step.whole("nonlinear")
    tape = step.tape
    left_free = _rest(left.array.ndim, (*left_batch, *left_depth))
    right_free = _rest(right.array.ndim, (*right_batch, *right_depth))
    batch = tuple(left.array.shape[d] for d in left_batch)
    rows = tuple(left.array.shape[d] for d in left_free)
    columns = tuple(right.array.shape[d] for d in right_free)
    depth = prod(left.array.shape[d] for d in left_depth)
    one = moved(tape, left, (*left_batch, *left_free, *left_depth))
    one = reshaped(tape, one, (*batch, prod(rows), depth))
    two = moved(tape, right, (*right_batch, *right_depth, *right_free))
    two = reshaped(tape, two, (*batch, depth, prod(columns)))
    flat = step.array.reshape((*batch, prod(rows), prod(columns)))
    rank = len(batch)
    numbers = (((rank + 1,), (rank,)), (tuple(range(rank)), tuple(range(rank))))
    params = {**step.params, "dimension_numbers": numbers}

    def run(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray(step.primitive.bind(a, b, **params))

    product = tape.add("matmul", [one, two], flat, run, name="dot_general")
    out = reshaped(tape, product, (*batch, *rows, *columns))
    return [Value(step.given[0], out.host, out.node)]


def _rest(rank: int, taken: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(d for d in range(rank) if d not in taken)
