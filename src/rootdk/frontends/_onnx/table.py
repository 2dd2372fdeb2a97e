"""The table of ONNX operations: how an entry is written, and what it records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rootdk.frontends._onnx.recorder import Recorder
from rootdk.frontends._onnx.tensors import Array, Operation, Redo, Tensor

__all__ = ["TABLE", "Lowering", "again", "emitted", "entry", "opaque", "same"]

Lowering = Callable[[Operation, Recorder], Sequence[Tensor | None]]
"""Records an operation and returns the tensors of its outputs."""

TABLE: dict[str, Lowering] = {}


def entry(*names: str) -> Callable[[Lowering], Lowering]:
    """Enter a function under the names of operations."""

    def register(function: Lowering) -> Lowering:
        for name in names:
            TABLE[name] = function
        return function

    return register


def same(op: str, *names: str) -> None:
    """Operations whose inputs are all their tensors and whose attributes do not matter."""

    def lower(operation: Operation, recorder: Recorder) -> Sequence[Tensor | None]:
        return emitted(op, operation, recorder)

    for name in names:
        TABLE[name] = lower


def emitted(
    op: str,
    operation: Operation,
    recorder: Recorder,
    positions: Sequence[int] | None = None,
    **attrs: Any,
) -> list[Tensor | None]:
    """Record one canonical node for each output, made of the inputs at ``positions``."""
    if positions is None:
        positions = [i for i, source in enumerate(operation.inputs) if source is not None]
    sources = [operation.inputs[at] for at in positions]
    given = [source for source in sources if source is not None]
    attrs.setdefault("name", operation.kind)
    made: list[Tensor | None] = []
    for number, array in enumerate(operation.outputs):
        if array is None or isinstance(array, list):
            made.append(None)
            continue
        redo = again(operation, positions, number)
        made.append(recorder.emit(op, given, array, redo, **attrs))
        if op in {"norm", "softmax"}:
            break
    return made


def again(operation: Operation, positions: Sequence[int], output: int = 0) -> Redo:
    """Run the operation again with other arrays at ``positions``."""
    run = operation.again

    def redo(arrays: Sequence[Array]) -> Array:
        array: Array = run(dict(zip(positions, arrays, strict=True)))[output]
        return array

    return redo


def opaque(operation: Operation, recorder: Recorder) -> list[Tensor | None]:
    """What is not understood: it may have done anything."""
    named = f"{operation.domain}::{operation.kind}" if operation.domain else operation.kind
    return emitted("opaque", operation, recorder, name=named)
