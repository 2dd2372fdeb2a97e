"""What Numba has no words for: a matrix product held in vector registers, and a power of two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numba.core.cgutils
import numba.core.imputils
import numba.extending
from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba import types

_LANES = 16
"""Numbers in one vector of the product; narrower machines take it in parts."""


def _shapes() -> tuple[tuple[int, int], tuple[int, int]]:
    """Return rows and vectors of a product, as many sums as registers hold, and of a square.

    Squares are of head_dim, most often 64 or 128: powers of two leave the least over.
    """
    features = binding.get_host_cpu_features()
    if features.get("avx512f"):
        return (8, 3), (8, 2)
    return ((6, 1) if features.get("avx2") else (4, 1)), (4, 1)


(ROWS, _VECTORS), (SQUARE_ROWS, _SQUARE_VECTORS) = _shapes()
"""Rows of scores that are made together, and rows of a square."""

PANEL = _VECTORS * _LANES
"""Keys of scores that are made together."""

SQUARE_PANEL = _SQUARE_VECTORS * _LANES
"""Columns of a square that are made together."""

# Numba's annotations describe what it is given, not what its compiler makes of it.
_njit: Any = numba.njit
_intrinsic: Any = numba.extending.intrinsic
_borrowed: Any = numba.core.imputils.impl_ret_borrowed
_declared: Any = numba.core.cgutils.get_or_insert_function

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(*signature: Any, **options: Any) -> Callable[[_Function], _Function]:
    """Compile a function that does not hold the interpreter's lock.

    With a signature it is compiled at once, and kept on disk where Numba finds a place
    for it; a read-only installation without any is compiled in each process.
    """
    options = {"nogil": True, "error_model": "numpy", **options}

    def decorate(function: _Function) -> _Function:
        if not signature:
            return cast(_Function, _njit(**options)(function))
        try:
            return cast(_Function, _njit(*signature, cache=True, **options)(function))
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            return cast(_Function, _njit(*signature, **options)(function))

    return decorate


def given_as(kind: Any, dimensions: int) -> Any:
    """Return the type of an array that is only read, however it lies in memory."""
    return types.Array(kind, dimensions, "A", readonly=True)


_FLOAT, _INT32, _INT64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_VECTOR = ir.VectorType(_FLOAT, _LANES)


def _index(number: int) -> Any:
    return ir.Constant(_INT64, number)


def _load(builder: Any, base: Any, vector: int) -> Any:
    place = builder.gep(base, [_index(vector * _LANES)])
    return builder.load(builder.bitcast(place, _VECTOR.as_pointer()), align=4)


def _everywhere(builder: Any, number: Any) -> Any:
    """Return a vector that holds a number in all lanes."""
    nowhere = ir.Constant(_VECTOR, ir.Undefined)
    one = builder.insert_element(nowhere, number, ir.Constant(_INT32, 0))
    lanes = ir.Constant(ir.VectorType(_INT32, _LANES), [0] * _LANES)
    return builder.shuffle_vector(one, nowhere, lanes)


def _products(rows: int, vectors: int) -> Any:
    """Return an intrinsic that writes sums of products, so many rows and vectors of columns.

    ``out[out_at + row * stride + column]`` becomes the sum over the depth of
    ``left[left_at + depth * left_step + row] * right[right_at + depth * right_step + column]``.
    All three are float32, in one dimension, contiguous. The sums stay in registers, and are
    added in order of depth.
    """

    def of(
        _: Any,
        left: Any,
        left_at: Any,
        left_step: Any,
        right: Any,
        right_at: Any,
        right_step: Any,
        out: Any,
        out_at: Any,
        depth: Any,
        stride: Any,
    ) -> Any:
        whole = types.int64
        sides = left, whole, whole, right, whole, whole
        signature = types.void(*sides, out, whole, whole, whole)

        def generate(context: Any, builder: Any, given: Any, arguments: Any) -> Any:
            bases = [
                builder.gep(
                    context.make_array(given.args[at])(context, builder, arguments[at]).data,
                    [arguments[at + 1]],
                )
                for at in (0, 3, 6)
            ]
            steps = arguments[2], arguments[5]
            sums = _sums(builder, bases[:2], steps, arguments[8], (rows, vectors))
            for row, of_row in enumerate(sums):
                base = builder.gep(bases[2], [builder.mul(arguments[9], _index(row))])
                for vector, values in enumerate(of_row):
                    place = builder.gep(base, [_index(vector * _LANES)])
                    builder.store(values, builder.bitcast(place, _VECTOR.as_pointer()), align=4)
            return context.get_dummy_value()

        return signature, generate

    return _intrinsic(of)


product: Any = _products(ROWS, _VECTORS)
"""Writes ROWS × PANEL scores."""

square: Any = _products(SQUARE_ROWS, _SQUARE_VECTORS)
"""Writes SQUARE_ROWS × SQUARE_PANEL sums of products of columns."""


def _sums(
    builder: Any, bases: list[Any], steps: tuple[Any, Any], depth: Any, shape: tuple[int, int]
) -> list[list[Any]]:
    """Emit the loop over the depth, and return its sums, rows of vectors."""
    rows, columns = shape
    multiply_add = _declared(
        builder.module, ir.FunctionType(_VECTOR, [_VECTOR] * 3), "llvm.fmuladd.v16f32"
    )
    before = builder.block
    loop = builder.append_basic_block("product.loop")
    after = builder.append_basic_block("product.after")
    zero = ir.Constant(_VECTOR, [0.0] * _LANES)
    builder.cbranch(builder.icmp_signed(">", depth, _index(0)), loop, after)

    builder.position_at_end(loop)
    at = builder.phi(_INT64)
    held = [[builder.phi(_VECTOR) for _ in range(columns)] for _ in range(rows)]
    left, right = (
        builder.gep(base, [builder.mul(at, step)]) for base, step in zip(bases, steps, strict=True)
    )
    vectors = [_load(builder, right, vector) for vector in range(columns)]
    grown = []
    for row, of_row in enumerate(held):
        entry = _everywhere(builder, builder.load(builder.gep(left, [_index(row)])))
        grown.append(
            [
                builder.call(multiply_add, [entry, vector, so_far])
                for vector, so_far in zip(vectors, of_row, strict=True)
            ]
        )
    following = builder.add(at, _index(1))
    builder.cbranch(builder.icmp_signed("<", following, depth), loop, after)

    builder.position_at_end(after)
    _joined(at, (_index(0), before), (following, loop))
    sums = [[builder.phi(_VECTOR) for _ in range(columns)] for _ in range(rows)]
    for row in range(rows):
        for vector in range(columns):
            for phi in (held[row][vector], sums[row][vector]):
                _joined(phi, (zero, before), (grown[row][vector], loop))
    return sums


def _joined(phi: Any, *incoming: tuple[Any, Any]) -> None:
    for value, block in incoming:
        phi.add_incoming(value, block)


def _low_bits_as_exponent(_: Any, number: Any) -> Any:
    """Return the float32 whose exponent field is the low eight bits of another's pattern."""

    def generate(_context: Any, builder: Any, _given: Any, arguments: Any) -> Any:
        bits = builder.bitcast(arguments[0], _INT32)
        return builder.bitcast(builder.shl(bits, ir.Constant(_INT32, 23)), _FLOAT)

    return types.float32(types.float32), generate


low_bits_as_exponent: Any = _intrinsic(_low_bits_as_exponent)


def _bits_of(_: Any, number: Any) -> Any:
    """Return the bit pattern of a float64 as an unsigned number."""

    def generate(_context: Any, builder: Any, _given: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], _INT64)

    return types.uint64(types.float64), generate


bits_of: Any = _intrinsic(_bits_of)


def _as_contiguous(_: Any, row: Any) -> Any:
    """Return a row as one whose elements follow each other, which a loop takes in lanes.

    That they do is for the caller to see.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        # What describes an array is the same for every order of its elements.
        return _borrowed(context, builder, signature.return_type, arguments[0])

    return row.copy(layout="C")(row), generate


as_contiguous: Any = _intrinsic(_as_contiguous)


def _reducible(name: str) -> Any:
    """Return an intrinsic of two finite float32 numbers that a loop over lanes may reduce by."""

    def of_two(_: Any, left: Any, right: Any) -> Any:
        def generate(_context: Any, builder: Any, _given: Any, arguments: Any) -> Any:
            kind = ir.FunctionType(_FLOAT, [_FLOAT] * 2)
            function = _declared(builder.module, kind, f"llvm.{name}.f32")
            return builder.call(function, list(arguments), fastmath=("nnan", "nsz"))

        return types.float32(types.float32, types.float32), generate

    return _intrinsic(of_two)


smaller = _reducible("minnum")
"""The smaller of two finite numbers. ``min`` is a comparison, which keeps a loop out of lanes."""

larger = _reducible("maxnum")
"""The larger of two finite numbers."""
