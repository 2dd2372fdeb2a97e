"""What an initializer is: a weight, or a number, a table or a mask that a program wrote down.

A file does not say which of its initializers were trained. What they are used for does: a
projection multiplies by a matrix, an embedding picks rows, a norm multiplies by a vector.
Tables of sines and cosines, frequencies, masks and single numbers are constants.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx

from rootdk.frontends._onnx.loading import Weights
from rootdk.frontends._onnx.tensors import Array

__all__ = ["Uses", "is_learned"]

_LAYOUT = frozenset(
    "Identity Cast CastLike Transpose Reshape Unsqueeze Squeeze Flatten Expand Slice Split Concat "
    "DequantizeLinear Tile".split()
)
_PRODUCTS = frozenset(
    "MatMul Gemm Einsum Conv ConvTranspose MatMulInteger QLinearMatMul QLinearConv ConvInteger "
    "FusedMatMul FusedGemm MatMulNBits LSTM GRU RNN Attention MultiHeadAttention "
    "GroupQueryAttention QAttention DynamicQuantizeMatMul DeformConv".split()
)
_NORMS = frozenset(
    "LayerNormalization GroupNormalization InstanceNormalization BatchNormalization "
    "RMSNormalization SimplifiedLayerNormalization SkipLayerNormalization PRelu "
    "SkipSimplifiedLayerNormalization EmbedLayerNormalization".split()
)


class Uses:
    """Which operations each tensor of a graph reaches, behind what only moves entries."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._consumers: dict[str, list[onnx.NodeProto]] = {}
        for node in _every_node(graph):
            for name in node.input:
                self._consumers.setdefault(name, []).append(node)

    def of(self, name: str) -> frozenset[str]:
        """The operations that use a tensor; a row that is picked is ``Gather`` of its data."""
        found: set[str] = set()
        todo, seen = [name], set[str]()
        while todo:
            current = todo.pop()
            if current in seen or len(seen) > 200:
                continue
            seen.add(current)
            for node in self._consumers.get(current, ()):
                if node.op_type in _LAYOUT and node.input[0] == current:
                    todo.extend(node.output)
                elif node.op_type == "Gather" and node.input[0] != current:
                    found.add("Index")
                else:
                    found.add(node.op_type)
        return frozenset(found)


def _every_node(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _every_node(attribute.g)
            for inner in attribute.graphs:
                yield from _every_node(inner)


def is_learned(name: str, weights: Weights, uses: Uses) -> bool:
    """Whether an initializer is a weight, by what it is used for and what it looks like."""
    reached = uses.of(name)
    shape = weights.shape(name)
    if "DequantizeLinear" in reached or reached & {"MatMulInteger", "QLinearMatMul"}:
        return len(shape) > 1
    if not weights.is_float(name):
        return bool(reached & _PRODUCTS) and len(shape) > 1
    wide = [size for size in shape if size > 1]
    if not wide:
        return False
    if reached & _PRODUCTS:
        # One row of numbers that meets positions in a product: frequencies.
        return len(wide) > 1 or bool(reached & {"Conv", "LayerNormalization"})
    if reached & _NORMS:
        return True
    if "Gather" in reached:
        return len(wide) > 1 and not is_rotary_table(weights[name])
    return len(wide) == 1 and not is_frequencies(weights[name])


def is_rotary_table(array: Array) -> bool:
    """Whether rows are cosines, or sines, of positions times frequencies, times one number.

    With c and s those of the first positions: c₂ = 2·c₁² − 1, and s₃·s₁ = s₂² − s₁², whatever
    the number is.
    """
    if array.ndim < 2 or array.shape[-1] < 2:
        return False
    table = np.asarray(array, dtype=np.float64).reshape(-1, array.shape[-1])[:4]
    if len(table) < 4 or not np.all(np.isfinite(table)) or not np.any(table[1]):
        return False
    gain = float(table[0, 0])
    if not np.ptp(table[0]) <= _CLOSE * abs(gain):
        return False
    if gain > 0.0:
        one, two = table[1] / gain, table[2] / gain
        return bool(np.allclose(two, 2.0 * one**2 - 1.0, atol=_CLOSE, rtol=0.0))
    if gain < 0.0:
        return False
    one, two, three = table[1:]
    size = one**2 + two**2
    return bool(np.all(np.abs(three * one - two**2 + one**2) <= _CLOSE * size + _TINY * size.max()))


def is_frequencies(array: Array) -> bool:
    """Whether numbers are positive, at most 1, and fall: frequencies of a position encoding."""
    values = np.asarray(array, dtype=np.float64).reshape(-1)
    falling = bool(np.all(np.diff(values) < 0.0))
    return values.size > 2 and falling and bool(values[-1] > 0.0) and bool(values[0] <= 1.0)


_CLOSE = 1e-2
"""Tables may be stored in half precision."""

_TINY = 1e-6
