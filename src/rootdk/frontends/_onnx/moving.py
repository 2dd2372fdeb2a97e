"""ONNX operations that only move, repeat or join entries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rootdk.frontends._graph.node import Kind
from rootdk.frontends._onnx.recorder import Recorder
from rootdk.frontends._onnx.table import emitted, entry, same
from rootdk.frontends._onnx.tensors import Operation, Redo, Tensor

__all__: list[str] = []

same("rearrange", "DepthToSpace", "SpaceToDepth", "ReverseSequence", "CenterCropPad")
same("assemble", "ScatterND", "ScatterElements", "Scatter", "TensorScatter")

Outputs = Sequence[Tensor | None]


@entry("Reshape", "Unsqueeze", "Squeeze", "Flatten")
def _view(operation: Operation, recorder: Recorder) -> Outputs:
    return emitted("view", operation, recorder, [0])


@entry("Transpose")
def _transpose(operation: Operation, recorder: Recorder) -> Outputs:
    rank = operation.tensors()[0].array.ndim
    dims = tuple(operation.attributes.get("perm", range(rank)[::-1]))
    return emitted("permute", operation, recorder, [0], dims=dims)


@entry("Expand")
def _expand(operation: Operation, recorder: Recorder) -> Outputs:
    return emitted("expand", operation, recorder, [0])


@entry("Tile", "Pad")
def _repeated(operation: Operation, recorder: Recorder) -> Outputs:
    source = operation.tensors()[0].array
    if source.shape == operation.outputs[0].shape:
        return emitted("identity", operation, recorder, [0])
    names = {"Tile": "Tile", "Pad": "pad"}
    return emitted("rearrange", operation, recorder, [0], name=names[operation.kind])


@entry("Concat")
def _concat(operation: Operation, recorder: Recorder) -> Outputs:
    rank = operation.outputs[0].ndim
    dim = int(operation.attributes["axis"]) % rank
    positions = [
        i for i, s in enumerate(operation.inputs) if s is not None and (s.array.size or i == 0)
    ]
    if len(positions) < len(operation.inputs):
        # An empty cache joins nothing.
        kept = [s for i in positions if (s := operation.inputs[i]) is not None and s.array.size]
        if len(kept) == 1:
            array = operation.outputs[0]
            return [recorder.emit("identity", kept, array, lambda a: a[0], name="Concat")]
    return emitted("cat", operation, recorder, dim=dim)


@entry("Split")
def _split(operation: Operation, recorder: Recorder) -> Outputs:
    source = operation.tensors()[0]
    dim = int(operation.attributes.get("axis", 0)) % source.array.ndim
    made: list[Tensor | None] = []
    start = 0
    for array in operation.outputs:
        made.append(_part(recorder, source, array, dim, start, 1, "Split"))
        start += array.shape[dim] if array is not None else 0
    return made


def _part(
    recorder: Recorder, source: Tensor, array: Any, dim: int, start: int, step: int, name: str
) -> Tensor:
    stop = start + array.shape[dim] * step
    where = (slice(None),) * dim + (slice(start, stop, step),)
    redo: Redo = lambda a: a[0][where]  # noqa: E731 - one expression, made for this slice
    return recorder.emit("slice", [source], array, redo, dim=dim, start=start, step=step, name=name)


@entry("Slice")
def _slice(operation: Operation, recorder: Recorder) -> Outputs:
    source = operation.tensors()[0]
    shape = source.array.shape
    starts, ends = operation.numbers(1, "starts"), operation.numbers(2, "ends")
    assert starts is not None
    assert ends is not None
    axes = operation.numbers(3, "axes") or list(range(len(starts)))
    steps = operation.numbers(4, "steps") or [1] * len(starts)
    if any(step < 1 for step in steps):
        return emitted("rearrange", operation, recorder, [0], name="Slice")
    tensor = source
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        dim = axis % len(shape)
        first, past, _ = slice(start, end, step).indices(shape[dim])
        where = (slice(None),) * dim + (slice(first, past, step),)
        array = tensor.array[where]
        if array.shape == tensor.array.shape:
            continue
        tensor = _part(recorder, tensor, array, dim, first, step, "Slice")
    if tensor is source:
        return emitted("identity", operation, recorder, [0])
    return [tensor]


@entry("Gather")
def _gather(operation: Operation, recorder: Recorder) -> Outputs:
    source, index = operation.tensors()
    if source.node.kind == Kind.PARAMETER and source.node.op == "parameter":
        return emitted("embedding", operation, recorder)
    dim = int(operation.attributes.get("axis", 0)) % max(source.array.ndim, 1)
    if index.node.kind == Kind.CONSTANT and index.array.ndim == 0:
        at = int(index.array) % source.array.shape[dim]
        return emitted("select", operation, recorder, [0], dim=dim, at=at)
    if source.node.kind == Kind.CONSTANT and source.array.dtype.kind in "iu":
        # Sizes picked out of a shape.
        return emitted("constant" if _fixed(operation) else "gather", operation, recorder)
    return emitted("gather", operation, recorder)


def _fixed(operation: Operation) -> bool:
    return all(source.node.kind == Kind.CONSTANT for source in operation.tensors())


@entry("GatherElements", "GatherND", "Compress")
def _picked(operation: Operation, recorder: Recorder) -> Outputs:
    return emitted("gather", operation, recorder)


@entry("RotaryEmbedding")
def _rotary(operation: Operation, recorder: Recorder) -> Outputs:
    """A rotation of pairs: entries are mixed, lengths kept, if the tables are of size 1."""
    tables = operation.tensors()[1:3] if not operation.domain else operation.tensors()[2:4]
    if len(tables) != 2:
        return emitted("opaque", operation, recorder)
    cos, sin = (np.asarray(t.array, dtype=np.float64) for t in tables)
    size = np.sqrt(cos**2 + sin**2)
    if not size.size or not math.isclose(float(size.min()), 1.0, abs_tol=1e-2):
        return emitted("opaque", operation, recorder)
    if not math.isclose(float(size.max()), 1.0, abs_tol=1e-2):
        return emitted("opaque", operation, recorder)
    return emitted("rearrange", operation, recorder, [0], name="RotaryEmbedding")
