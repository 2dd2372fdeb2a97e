"""Quantised products: eight-bit numbers in, and the scales multiplied in afterwards."""

from __future__ import annotations

from collections.abc import Sequence

from rootdk.frontends._graph.node import LAYOUT, Kind, Node
from rootdk.frontends._onnx.arithmetic import binary
from rootdk.frontends._onnx.recorder import Recorder
from rootdk.frontends._onnx.table import emitted, entry
from rootdk.frontends._onnx.tensors import Operation, Tensor

__all__: list[str] = []

_QUANTISED = frozenset({"MatMulInteger", "ConvInteger"})


@entry("Mul")
def _scaled_back(operation: Operation, recorder: Recorder) -> Sequence[Tensor | None]:
    """What a quantised projection gives is multiplied by the two scales: still the projection."""
    tensors = operation.tensors()
    for tensor, side in ((tensors[0], tensors[-1]), (tensors[-1], tensors[0])):
        projection = _behind(tensor.node)
        if projection is not None and side.array.size <= _channels(tensor):
            return emitted("linear", operation, recorder, name="dequantised product")
    return binary(operation, recorder)


def _behind(node: Node) -> Node | None:
    """The quantised product that a node is, seen through casts."""
    while node.op in LAYOUT and len(node.inputs) == 1:
        node = node.inputs[0]
    learned = any(source.kind == Kind.PARAMETER for source in node.inputs)
    return node if node.attrs.get("name") in _QUANTISED and learned else None


def _channels(tensor: Tensor) -> int:
    return int(tensor.array.shape[-1]) if tensor.array.ndim else 1
