"""Attention layers written as ONNX graphs, by hand and in several spellings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["SPELLINGS", "Graph", "attention", "layer", "saved"]

BATCH, LENGTH, HEADS, HEAD_DIM = 2, 10, 4, 16
WIDTH = HEADS * HEAD_DIM
STANDARD = HEAD_DIM**-0.5


class Graph:
    """Builds a graph step by step; each call returns the name of what it made."""

    def __init__(self, *, opset: int = 21, dtype: Any = np.float32) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.opset = opset
        self.dtype = np.dtype(dtype)
        self.scope = ""

    def __call__(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        name = f"{self.scope}/{kind}_{len(self.nodes)}"
        made = [f"{name}_out{i}" for i in range(outputs)]
        domain = attributes.pop("domain", "")
        node = helper.make_node(kind, list(inputs), made, name=name, domain=domain, **attributes)
        self.nodes.append(node)
        return made[0] if outputs == 1 else made

    def const(self, value: Any, dtype: Any = None) -> str:
        array = np.asarray(value, dtype=self.dtype if dtype is None else dtype)
        return self.hold(array, f"c{len(self.initializers)}")

    def hold(self, array: np.ndarray, name: str) -> str:
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def model(
        self,
        inputs: dict[str, Sequence[Any]],
        output: str,
        *,
        types: dict[str, int] | None = None,
        functions: Sequence[onnx.FunctionProto] = (),
    ) -> onnx.ModelProto:
        known = types or {}
        float_type = helper.np_dtype_to_tensor_dtype(self.dtype)
        given = [
            helper.make_tensor_value_info(name, known.get(name, float_type), list(shape))
            for name, shape in inputs.items()
        ]
        out = onnx.ValueInfoProto(name=output)
        graph = helper.make_graph(self.nodes, "graph", given, [out], self.initializers)
        domains = {node.domain for node in self.nodes} - {""} | {f.domain for f in functions}
        imports = [helper.make_opsetid("", self.opset)]
        imports += [helper.make_opsetid(domain, 1) for domain in sorted(domains)]
        return helper.make_model(
            graph, opset_imports=imports, ir_version=10, functions=list(functions)
        )


def projected(g: Graph, x: str, name: str, seed: int, size: float = 1.0) -> str:
    """(batch, length, width) to (batch, heads, length, head_dim)."""
    rng = np.random.default_rng(seed)
    weight = size * rng.normal(size=(WIDTH, WIDTH)) * WIDTH**-0.5
    y = g("MatMul", x, g.hold(weight.astype(g.dtype), f"{g.scope}/{name}.weight"))
    y = g("Reshape", y, g.const([0, 0, HEADS, HEAD_DIM], np.int64))
    return g("Transpose", y, perm=[0, 2, 1, 3])


Core = Callable[[Graph, str, str, str, float], str]
"""From query, key, value and a scale to the output, all (batch, heads, length, head_dim)."""


def layer(
    core: Core, scale: float = STANDARD, *, layers: int = 1, size: float = 1.0, **options: Any
):
    """A model of attention layers around one way to compute attention."""
    g = Graph(**options)
    x = "x"
    for number in range(layers):
        g.scope = f"/layers.{number}/attn"
        ones, zeros = (
            g.hold(f((WIDTH,), g.dtype), f"n{number}{f.__name__}") for f in (np.ones, np.zeros)
        )
        normed = g("LayerNormalization", x, ones, zeros)
        query, key, value = (
            projected(g, normed, n, 10 * number + i, size) for i, n in enumerate("qkv")
        )
        out = core(g, query, key, value, scale)
        out = g("Transpose", out, perm=[0, 2, 1, 3])
        out = g("Reshape", out, g.const([0, 0, WIDTH], np.int64))
        x = g("Add", x, out)
    return g.model({"x": ["batch", "length", WIDTH]}, x)


def attention(spelling: str, scale: float = STANDARD, **options: Any) -> onnx.ModelProto:
    """One layer in a spelling."""
    core, opset = SPELLINGS[spelling]
    return layer(core, scale, opset=opset, **options)


def turned(g: Graph, key: str) -> str:
    return g("Transpose", key, perm=[0, 1, 3, 2])


def _mul(g: Graph, q: str, k: str, v: str, scale: float) -> str:
    scores = g("Mul", g("MatMul", q, turned(g, k)), g.const(scale))
    return g("MatMul", g("Softmax", scores, axis=-1), v)


def _div(g: Graph, q: str, k: str, v: str, scale: float) -> str:
    scores = g("Div", g("MatMul", q, turned(g, k)), g.const([1.0 / scale]))
    return g("MatMul", g("Softmax", scores, axis=3), v)


def _on_query(g: Graph, q: str, k: str, v: str, scale: float) -> str:
    scores = g("MatMul", g("Mul", g.const(scale), q), turned(g, k))
    return g("MatMul", g("Softmax", scores), v)


def _halves(g: Graph, q: str, k: str, v: str, scale: float) -> str:
    root = g.const(scale**0.5)
    scores = g("MatMul", g("Mul", q, root), g("Mul", turned(g, k), root))
    return g("MatMul", g("Softmax", scores), v)


def _einsum(g: Graph, q: str, k: str, v: str, scale: float) -> str:
    scores = g("Einsum", q, k, equation="bhqd,bhkd->bhqk")
    weights = g("Softmax", g("Mul", scores, g.const(scale)))
    return g("Einsum", weights, v, equation="bhqk,bhkd->bhqd")


def _einsum_heads_last(g: Graph, q: str, k: str, v: str, scale: float) -> str:
    q, k, v = (g("Transpose", t, perm=[0, 2, 1, 3]) for t in (q, k, v))
    scores = g("Einsum", q, k, equation="bqhd,bkhd->bhqk")
    weights = g("Softmax", g("Mul", scores, g.const(scale)))
    out = g("Einsum", weights, v, equation="bhqk,bkhd->bqhd")
    return g("Transpose", out, perm=[0, 2, 1, 3])


def _from_shape(g: Graph, q: str, k: str, v: str, scale: float) -> str:
    """1/√d computed from the shape of the query, times what is left to the scale."""
    size = g("Gather", g("Shape", q), g.const(3, np.int64))
    root = g("Sqrt", g("Cast", size, to=helper.np_dtype_to_tensor_dtype(g.dtype)))
    rest = g.const(scale / STANDARD)
    scores = g("Mul", g("Div", g("MatMul", q, turned(g, k)), root), rest)
    return g("MatMul", g("Softmax", scores), v)


def _decomposed(g: Graph, q: str, k: str, v: str, scale: float) -> str:
    axes = g.const([-1], np.int64)
    scores = g("Mul", g("MatMul", q, turned(g, k)), g.const(scale))
    powers = g("Exp", g("Sub", scores, g("ReduceMax", scores, axes, keepdims=1)))
    weights = g("Div", powers, g("ReduceSum", powers, axes, keepdims=1))
    return g("MatMul", weights, v)


def _merged_heads(g: Graph, q: str, k: str, v: str, scale: float) -> str:
    three = g.const([-1, LENGTH, HEAD_DIM], np.int64)
    q, k, v = (g("Reshape", t, three) for t in (q, k, v))
    scores = g("Mul", g("MatMul", q, g("Transpose", k, perm=[0, 2, 1])), g.const(scale))
    out = g("MatMul", g("Softmax", scores), v)
    return g("Reshape", out, g.const([-1, HEADS, LENGTH, HEAD_DIM], np.int64))


def _operator(g: Graph, q: str, k: str, v: str, scale: float) -> str:
    if scale == STANDARD:
        return g("Attention", q, k, v)
    return g("Attention", q, k, v, scale=scale)


SPELLINGS: dict[str, tuple[Core, int]] = {
    "mul": (_mul, 18),
    "div": (_div, 13),
    "on query": (_on_query, 21),
    "halves": (_halves, 21),
    "einsum": (_einsum, 21),
    "einsum, heads last": (_einsum_heads_last, 21),
    "from shape": (_from_shape, 21),
    "decomposed softmax": (_decomposed, 21),
    "merged heads": (_merged_heads, 21),
    "operator 23": (_operator, 23),
    "operator 24": (_operator, 24),
}


def saved(model: onnx.ModelProto, path: Path) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
