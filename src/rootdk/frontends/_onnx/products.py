"""ONNX's matrix products, and what they are made of."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rootdk.frontends._graph.node import Kind
from rootdk.frontends._onnx.einsum import Plan, planned
from rootdk.frontends._onnx.recorder import Recorder
from rootdk.frontends._onnx.table import emitted, entry, opaque, same
from rootdk.frontends._onnx.tensors import Array, Operation, Tensor

__all__: list[str] = []

same("conv", "Conv", "ConvTranspose", "ConvInteger", "QLinearConv", "DeformConv")

Outputs = Sequence[Tensor | None]


@entry("MatMul", "MatMulInteger", "QLinearMatMul", "MatMulNBits", "DynamicQuantizeMatMul")
def _matmul(operation: Operation, recorder: Recorder) -> Outputs:
    tensors = operation.tensors()
    if operation.kind != "MatMul":
        learned = any(t.node.kind == Kind.PARAMETER for t in tensors)
        return emitted("linear" if learned else "opaque", operation, recorder)
    if tensors[0].array.ndim == 1 or tensors[1].array.ndim == 1:
        return emitted("linear" if _learned(tensors) else "nonlinear", operation, recorder)
    return emitted("matmul", operation, recorder)


def _learned(tensors: Sequence[Tensor]) -> bool:
    return any(tensor.node.kind == Kind.PARAMETER for tensor in tensors[:2])


@entry("Gemm", "FusedMatMul", "TransposeMatMul", "FusedGemm")
def _gemm(operation: Operation, recorder: Recorder) -> Outputs:
    """alpha·A·B + beta·C, A and B transposed as the attributes say."""
    tensors = operation.tensors()
    if _learned(tensors):
        return emitted("linear", operation, recorder)
    given = operation.attributes
    batched = any(given.get(f"transBatch{side}") for side in "AB")
    if batched or given.get("activation"):
        return opaque(operation, recorder)
    sides = [
        _turned(recorder, tensor) if given.get(f"trans{side}") else tensor
        for tensor, side in zip(tensors[:2], "AB", strict=True)
    ]
    alpha, beta = float(given.get("alpha", 1.0)), float(given.get("beta", 1.0))

    def redo(arrays: Sequence[Array]) -> Array:
        made: Array = alpha * (arrays[0] @ arrays[1])
        return np.asarray(made + beta * arrays[2]) if len(arrays) > 2 else made

    array = operation.outputs[0]
    product = recorder.emit(
        "matmul",
        [*sides, *tensors[2:3]],
        array,
        redo,
        name=operation.kind,
        alpha=alpha,
        beta=beta,
    )
    return [product]


def _turned(recorder: Recorder, tensor: Tensor) -> Tensor:
    rank = tensor.array.ndim
    dims = (*range(rank - 2), rank - 1, rank - 2)
    return moved(recorder, tensor, dims)


def moved(recorder: Recorder, tensor: Tensor, dims: Sequence[int]) -> Tensor:
    """Record a transposition that an operation does inside."""
    order = tuple(dims)
    if order == tuple(range(len(order))):
        return tensor
    array = np.transpose(tensor.array, order)
    return recorder.emit(
        "permute", [tensor], array, lambda a: np.transpose(a[0], order), dims=order, name="permute"
    )


def shaped(recorder: Recorder, tensor: Tensor, shape: Sequence[int]) -> Tensor:
    """Record a reshape that an operation does inside."""
    target = tuple(shape)
    if target == tensor.array.shape:
        return tensor
    array = tensor.array.reshape(target)
    return recorder.emit("view", [tensor], array, lambda a: a[0].reshape(target), name="view")


@entry("Einsum")
def _einsum(operation: Operation, recorder: Recorder) -> Outputs:
    """A product of two: permuted to (batch…, rows, summed) and (batch…, summed, columns)."""
    tensors = operation.tensors()
    equation = operation.attributes["equation"]
    equation = equation.decode() if isinstance(equation, bytes) else str(equation)
    plan = planned(equation, [t.array.shape for t in tensors]) if len(tensors) == 2 else None
    if plan is None:
        learned = any(t.node.kind == Kind.PARAMETER for t in tensors)
        return emitted("linear", operation, recorder) if learned else opaque(operation, recorder)
    if _learned(tensors):
        return emitted("linear", operation, recorder)
    return [_planned(recorder, tensors, operation.outputs[0], plan)]


def _planned(recorder: Recorder, tensors: Sequence[Tensor], output: Array, plan: Plan) -> Tensor:
    sides = [
        shaped(recorder, moved(recorder, tensor, order), shape)
        for tensor, order, shape in zip(tensors, plan.orders, plan.shapes, strict=True)
    ]
    product = np.transpose(output, plan.result_order).reshape(plan.product_shape)
    made = recorder.emit("matmul", sides, product, lambda a: a[0] @ a[1], name="Einsum")
    whole = shaped(recorder, made, plan.result_shape)
    back = tuple(int(i) for i in np.argsort(plan.result_order))
    assert math.prod(whole.array.shape) == output.size
    return moved(recorder, whole, back)
