"""From ONNX operations to the canonical ones of the graph; a new operation is one entry."""

from __future__ import annotations

from collections.abc import Sequence

from rootdk.frontends._onnx import arithmetic, attention, moving, products, quantised
from rootdk.frontends._onnx.recorder import Recorder
from rootdk.frontends._onnx.table import TABLE, opaque
from rootdk.frontends._onnx.tensors import Operation, Tensor

__all__ = ["lower"]

# Importing the modules is what enters their operations into the table.
_ENTERED = (arithmetic, attention, moving, products, quantised)

_DOMAINS = frozenset({"", "ai.onnx", "com.microsoft", "ai.onnx.contrib"})


def lower(operation: Operation, recorder: Recorder) -> Sequence[Tensor | None]:
    """Record one operation; what is not known is ``opaque``."""
    handler = TABLE.get(operation.kind) if operation.domain in _DOMAINS else None
    if handler is None:
        return opaque(operation, recorder)
    return handler(operation, recorder)
