"""ONNX operations on single entries, reductions and norms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rootdk.frontends._graph.node import Kind
from rootdk.frontends._onnx.recorder import Recorder
from rootdk.frontends._onnx.table import emitted, entry, opaque, same
from rootdk.frontends._onnx.tensors import Operation, Tensor

__all__ = ["binary"]

same("constant", "Shape", "Size", "ConstantOfShape", "EyeLike", "Constant", "HannWindow")
same("random", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
same("random", "Multinomial", "Bernoulli")
same("identity", "Identity", "CastLike", "DequantizeLinear", "OptionalGetElement")
same("neg", "Neg")
same("exp", "Exp")
same("tanh", "Tanh")
same("relu", "Relu")
same("abs", "Abs")
same("sqrt", "Sqrt")
same("reciprocal", "Reciprocal")
same("log", "Log")
same("pow", "Pow")
same("argmax", "ArgMax", "ArgMin")
same(
    "compare",
    *"Equal Greater GreaterOrEqual Less LessOrEqual And Or Not Xor IsNaN IsInf BitwiseAnd "
    "BitwiseOr BitwiseXor BitwiseNot NonZero".split(),
)
same(
    "nonlinear",
    *"Sigmoid Gelu FastGelu QuickGelu BiasGelu Erf Elu Selu Celu LeakyRelu PRelu HardSigmoid "
    "HardSwish Mish Softplus Softsign ThresholdedRelu Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh "
    "Acosh Atanh Floor Ceil Round Sign Mod ReduceMin ReduceProd TopK OneHot Resize Upsample "
    "GridSample LSTM GRU RNN CumProd Det Hardmax BitShift QuantizeLinear DynamicQuantizeLinear "
    "Unique Shrink Swish NonMaxSuppression RoiAlign MaxRoiPool Col2Im DFT STFT MelWeightMatrix "
    "AffineGrid StringNormalizer TfIdfVectorizer".split(),
)
same(
    "pool",
    *"MaxPool AveragePool GlobalAveragePool GlobalMaxPool LpPool GlobalLpPool CumSum".split(),
)
same(
    "norm",
    *"LayerNormalization GroupNormalization InstanceNormalization BatchNormalization "
    "RMSNormalization LpNormalization MeanVarianceNormalization LRN SimplifiedLayerNormalization "
    "SkipLayerNormalization SkipSimplifiedLayerNormalization EmbedLayerNormalization".split(),
)

Outputs = Sequence[Tensor | None]


@entry("Range")
def _range(operation: Operation, recorder: Recorder) -> Outputs:
    return emitted("constant", operation, recorder)


@entry("Cast")
def _cast(operation: Operation, recorder: Recorder) -> Outputs:
    return emitted("identity", operation, recorder)


@entry("Add", "Sub", "Div")
def binary(operation: Operation, recorder: Recorder) -> Outputs:
    """A plain number beside a tensor is an attribute, as it is in a program."""
    op = operation.kind.lower()
    one, two = operation.tensors()
    for position, side in ((1, two), (0, one)):
        path = one if position else two
        if not _is_plain(side) or _is_plain(path) or path.array.size != operation.outputs[0].size:
            continue
        if position == 0 and op == "div":
            break
        number = float(side.array.reshape(-1)[0])
        reverse = {"reverse": True} if position == 0 and op == "sub" else {}
        return emitted(op, operation, recorder, [1 - position], scalar=number, **reverse)
    return emitted(op, operation, recorder)


def _is_plain(tensor: Tensor) -> bool:
    """One constant number, of a precision at which a program would hold it."""
    node = tensor.node
    held = tensor.array.dtype.name in {"float32", "float64"}
    return node.kind == Kind.CONSTANT and tensor.array.size == 1 and held


@entry("Sum")
def _sum(operation: Operation, recorder: Recorder) -> Outputs:
    total: Tensor | None = None
    for tensor in operation.tensors():
        if total is None:
            total = tensor
            continue
        array = total.array + tensor.array
        total = recorder.emit("add", [total, tensor], array, lambda a: a[0] + a[1], name="Sum")
    return [total]


@entry("Max", "Min")
def _extreme(operation: Operation, recorder: Recorder) -> Outputs:
    if len(operation.tensors()) != 2:
        return emitted("nonlinear", operation, recorder)
    return emitted("maximum", operation, recorder, largest=operation.kind == "Max")


@entry("Clip")
def _clip(operation: Operation, recorder: Recorder) -> Outputs:
    bounds: dict[str, float] = {}
    for position, (name, attribute) in enumerate((("low", "min"), ("high", "max")), 1):
        given = operation.input(position)
        if given is not None:
            if given.node.value is None:
                return emitted("nonlinear", operation, recorder)
            bounds[name] = float(given.node.value)
        elif attribute in operation.attributes:
            bounds[name] = float(operation.attributes[attribute])
    return emitted("clamp", operation, recorder, [0], **bounds)


@entry("Where")
def _where(operation: Operation, recorder: Recorder) -> Outputs:
    return emitted("where", operation, recorder)


@entry("Dropout")
def _dropout(operation: Operation, recorder: Recorder) -> Outputs:
    training = operation.input(2)
    on = training is not None and bool(np.any(training.array))
    if not on:
        return emitted("identity", operation, recorder, [0])
    ratio = operation.input(1)
    rate = float(ratio.array) if ratio is not None else 0.5
    return emitted("dropout", operation, recorder, [0], p=rate)


@entry("Softmax", "LogSoftmax")
def _softmax(operation: Operation, recorder: Recorder) -> Outputs:
    source = operation.tensors()[0]
    rank = max(source.array.ndim, 1)
    axis = int(operation.attributes.get("axis", 1 if operation.version < 13 else -1)) % rank
    if operation.version < 13 and math.prod(source.array.shape[axis + 1 :]) != 1:
        # Before opset 13 a softmax ran over all axes from this one on.
        return opaque(operation, recorder)
    op = "softmax" if operation.kind == "Softmax" else "log_softmax"
    return emitted(op, operation, recorder, dim=axis)


@entry("ReduceSum", "ReduceMean", "ReduceMax", "ReduceLogSumExp", "ReduceL2", "ReduceL1")
def _reduce(operation: Operation, recorder: Recorder) -> Outputs:
    source = operation.tensors()[0]
    rank = source.array.ndim
    axes = operation.numbers(1, "axes")
    if not axes and operation.attributes.get("noop_with_empty_axes"):
        return emitted("identity", operation, recorder, [0])
    dims = tuple(axis % rank for axis in axes) if axes else tuple(range(rank))
    attrs: dict[str, Any] = {"dims": dims, "keep": bool(operation.attributes.get("keepdims", 1))}
    op = _REDUCTIONS[operation.kind]
    if op == "vector_norm":
        attrs["ord"] = 2.0 if operation.kind == "ReduceL2" else 1.0
    return emitted(op, operation, recorder, [0], **attrs)


_REDUCTIONS = {
    "ReduceSum": "sum",
    "ReduceMean": "mean",
    "ReduceMax": "amax",
    "ReduceLogSumExp": "logsumexp",
    "ReduceL2": "vector_norm",
    "ReduceL1": "vector_norm",
}


@entry("ReduceSumSquare")
def _sum_of_squares(operation: Operation, recorder: Recorder) -> Outputs:
    """Squares, then their sum: as a norm by hand spells it."""
    source = operation.tensors()[0]
    two = recorder.leaf(np.asarray(2.0, source.array.dtype), "constant", Kind.CONSTANT, "2")
    squares = recorder.emit(
        "pow", [source, two], source.array**2, lambda a: a[0] ** a[1], name="ReduceSumSquare"
    )
    axes = operation.numbers(1, "axes")
    rank = source.array.ndim
    dims = tuple(axis % rank for axis in axes) if axes else tuple(range(rank))
    keep = bool(operation.attributes.get("keepdims", 1))
    total = recorder.emit(
        "sum",
        [squares],
        operation.outputs[0],
        lambda a: np.sum(a[0], axis=dims, keepdims=keep),
        dims=dims,
        keep=keep,
        name="ReduceSumSquare",
    )
    return [total]


@entry("Trilu")
def _trilu(operation: Operation, recorder: Recorder) -> Outputs:
    upper = bool(operation.attributes.get("upper", 1))
    return emitted("nonlinear", operation, recorder, [0], name="triu" if upper else "tril")
