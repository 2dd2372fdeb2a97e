"""What Numba has no words for: a matrix product held in vector registers, and a power of two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numba.core.cgutils
import numba.extending
from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba import types

_LANES = 16
"""Numbers in one vector of the product; narrower machines take it in parts."""


def _shape() -> tuple[int, int]:
    """Return rows and vectors of keys of one product: as many sums as there are registers for."""
    features = binding.get_host_cpu_features()
    if features.get("avx512f"):
        return 8, 3
    return (6, 1) if features.get("avx2") else (4, 1)


ROWS, _VECTORS = _shape()
"""Rows of scores that are made together."""

PANEL = _VECTORS * _LANES
"""Keys of scores that are made together."""

# Numba's annotations describe what it is given, not what its compiler makes of it.
_njit: Any = numba.njit
_intrinsic: Any = numba.extending.intrinsic
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


def _product(
    _: Any,
    query: Any,
    query_at: Any,
    key: Any,
    key_at: Any,
    out: Any,
    out_at: Any,
    depth: Any,
    stride: Any,
) -> Any:
    """Write ROWS × PANEL scores to ``out[out_at + row * stride + key]``.

    The query is laid out as ``[depth][ROWS]`` from ``query_at``, the key as
    ``[depth][PANEL]`` from ``key_at``; all three are float32, in one dimension, contiguous.
    The sums stay in registers, and are added in order of depth.
    """
    whole = types.int64
    signature = types.void(query, whole, key, whole, out, whole, whole, whole)

    def generate(context: Any, builder: Any, given: Any, arguments: Any) -> Any:
        bases = [
            builder.gep(
                context.make_array(given.args[at])(context, builder, arguments[at]).data,
                [arguments[at + 1]],
            )
            for at in (0, 2, 4)
        ]
        sums = _sums(builder, bases[0], bases[1], arguments[6])
        for row, of_row in enumerate(sums):
            base = builder.gep(bases[2], [builder.mul(arguments[7], _index(row))])
            for vector, values in enumerate(of_row):
                place = builder.gep(base, [_index(vector * _LANES)])
                builder.store(values, builder.bitcast(place, _VECTOR.as_pointer()), align=4)
        return context.get_dummy_value()

    return signature, generate


product: Any = _intrinsic(_product)


def _sums(builder: Any, query: Any, key: Any, depth: Any) -> list[list[Any]]:
    """Emit the loop over the depth, and return its ROWS × _VECTORS sums."""
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
    held = [[builder.phi(_VECTOR) for _ in range(_VECTORS)] for _ in range(ROWS)]
    keys = builder.gep(key, [builder.mul(at, _index(PANEL))])
    queries = builder.gep(query, [builder.mul(at, _index(ROWS))])
    vectors = [_load(builder, keys, vector) for vector in range(_VECTORS)]
    grown = []
    for row, of_row in enumerate(held):
        entry = _everywhere(builder, builder.load(builder.gep(queries, [_index(row)])))
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
    sums = [[builder.phi(_VECTOR) for _ in range(_VECTORS)] for _ in range(ROWS)]
    for row in range(ROWS):
        for vector in range(_VECTORS):
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
