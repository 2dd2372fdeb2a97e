"""Run one ONNX operation on arrays: by onnxruntime, by onnx's own reference where it cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from rootdk._lib.errors import TargetError

__all__ = ["Kernels"]

_HEAVY = frozenset({"MatMul", "Gemm", "Conv", "Attention", "Einsum", "MatMulInteger"})
_LARGEST_IR = 13
_BFLOAT16 = "bfloat16"

Value = Any
"""An array, a list of arrays (a sequence), or None (an optional that is empty)."""


class Kernels:
    """Runs operations of one model; operations that look alike share a session."""

    def __init__(self, opsets: Mapping[str, int], ir_version: int) -> None:
        self._opsets = dict(opsets)
        self._ir_version = min(ir_version or _LARGEST_IR, _LARGEST_IR)
        self._sessions: dict[Any, onnxruntime.InferenceSession] = {}
        self.by_reference: set[str] = set()

    def run(
        self,
        node: onnx.NodeProto,
        inputs: Sequence[Value],
        outer: Mapping[str, Value] | None = None,
    ) -> list[Value]:
        """Return the outputs of a node, None where it names none.

        ``outer`` are the values that its subgraphs take from around them.

        Raises
        ------
        TargetError
            If neither onnxruntime nor the reference can run it; the message names the node.
        """
        narrow = any(_name(value) == _BFLOAT16 for value in inputs)
        try:
            return self._by_runtime(node, inputs, outer or {})
        except Exception as error:  # noqa: BLE001 - whatever a kernel refuses, another may run
            if narrow:
                return self._widened(node, inputs, outer)
            return self._by_reference(node, inputs, outer, error)

    def _widened(
        self, node: onnx.NodeProto, inputs: Sequence[Value], outer: Mapping[str, Value] | None
    ) -> list[Value]:
        """bfloat16 in float32, and what comes out rounded: few kernels know bfloat16."""
        wide = [v.astype(np.float32) if _name(v) == _BFLOAT16 else v for v in inputs]
        dtype = next(v.dtype for v in inputs if _name(v) == _BFLOAT16)
        made = self.run(node, wide, outer)
        return [v.astype(dtype) if _name(v) == "float32" else v for v in made]

    # -- onnxruntime

    def _by_runtime(
        self, node: onnx.NodeProto, inputs: Sequence[Value], outer: Mapping[str, Value]
    ) -> list[Value]:
        given = {f"i{k}": v for k, v in enumerate(inputs) if v is not None}
        session = self._session(node, inputs, outer)
        found = iter(session.run(None, {**given, **outer}))
        return [next(found) if name else None for name in node.output]

    def _session(
        self, node: onnx.NodeProto, inputs: Sequence[Value], outer: Mapping[str, Value]
    ) -> onnxruntime.InferenceSession:
        key = _key(node, inputs) if not outer else None
        if key is not None and key in self._sessions:
            return self._sessions[key]
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        options.enable_cpu_mem_arena = False
        options.intra_op_num_threads = 0 if node.op_type in _HEAVY else 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        session = onnxruntime.InferenceSession(
            self._model(node, inputs, outer).SerializeToString(),
            options,
            providers=["CPUExecutionProvider"],
            enable_fallback=0,  # it would print, and try the same again
        )
        if key is not None:
            self._sessions[key] = session
        return session

    def _model(
        self, node: onnx.NodeProto, inputs: Sequence[Value], outer: Mapping[str, Value]
    ) -> onnx.ModelProto:
        alone = onnx.NodeProto()
        alone.CopyFrom(node)
        del alone.input[:]
        alone.input.extend(f"i{k}" if v is not None else "" for k, v in enumerate(inputs))
        del alone.output[:]
        alone.output.extend(f"o{k}" if name else "" for k, name in enumerate(node.output))
        given = {f"i{k}": v for k, v in enumerate(inputs) if v is not None}
        graph = helper.make_graph(
            [alone],
            "node",
            [_info(name, value) for name, value in {**given, **outer}.items()],
            [onnx.ValueInfoProto(name=name) for name in alone.output if name],
        )
        imports = [helper.make_opsetid(d, v) for d, v in self._opsets.items()]
        return helper.make_model(graph, opset_imports=imports, ir_version=self._ir_version)

    # -- the reference

    def _by_reference(
        self,
        node: onnx.NodeProto,
        inputs: Sequence[Value],
        outer: Mapping[str, Value] | None,
        why: Exception,
    ) -> list[Value]:
        from onnx.reference import ReferenceEvaluator

        given = {f"i{k}": v for k, v in enumerate(inputs) if v is not None}
        try:
            model = self._model(node, inputs, outer or {})
            found = iter(ReferenceEvaluator(model).run(None, {**given, **(outer or {})}))
            made = [next(found) if name else None for name in node.output]
        except Exception:  # noqa: BLE001 - neither could run it; the first reason is said
            words = " ".join(str(why).split())[:300]
            raise TargetError(f"{node.op_type} {node.name!r} cannot be run: {words}") from None
        self.by_reference.add(node.op_type)
        return made


def _key(node: onnx.NodeProto, inputs: Sequence[Value]) -> Any:
    attributes = b"".join(sorted(a.SerializeToString() for a in node.attribute))
    kinds = tuple(_kind(value) for value in inputs)
    outputs = tuple(bool(name) for name in node.output)
    return node.domain, node.op_type, attributes, kinds, outputs


def _kind(value: Value) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return ("sequence", _kind(value[0]) if value else None)
    return value.dtype.name, value.ndim


def _name(value: Value) -> str:
    return "" if value is None or isinstance(value, list) else str(value.dtype.name)


def _info(name: str, value: Value) -> onnx.ValueInfoProto:
    if isinstance(value, list):
        inner = _type(value[0]) if value else helper.make_tensor_type_proto(1, None)
        return helper.make_value_info(name, helper.make_sequence_type_proto(inner))
    return helper.make_value_info(name, _type(value))


def _type(value: Any) -> onnx.TypeProto:
    if value.dtype.kind in "OUS":
        number = onnx.TensorProto.STRING
    else:
        number = helper.np_dtype_to_tensor_dtype(value.dtype)
    return helper.make_tensor_type_proto(number, [None] * value.ndim)
