"""The small transformer as an ONNX graph written by hand, in four spellings of its attention."""

from typing import Any

import numpy as np
from frontends.onnx_graphs import Graph, turned
from frontends.same.transformer import BLOCKS, Case, Size

__all__ = ["OPSETS", "SPELLINGS", "build"]


def plain(g: Graph, q: str, k: str, v: str, case: Case) -> str:
    fault, size = case.fault, case.size
    product = g("MatMul", times(g, q, fault.query(size)), turned(g, k))
    weights = softmax(g, g("Mul", product, g.const(fault.scores(size))), case)
    return g("MatMul", times(g, weights, fault.weights(size)), v)


def einsum(g: Graph, q: str, k: str, v: str, case: Case) -> str:
    fault, size = case.fault, case.size
    q = times(g, q, fault.query(size))
    scores = g("Einsum", q, k, equation="bhqd,bhkd->bhqk")
    weights = softmax(g, g("Mul", scores, g.const(fault.scores(size))), case)
    weights = times(g, weights, fault.weights(size))
    return g("Einsum", weights, v, equation="bhqk,bhkd->bhqd")


def by_hand(g: Graph, q: str, k: str, v: str, case: Case) -> str:
    fault, size = case.fault, case.size
    product = g("MatMul", times(g, q, fault.query(size)), turned(g, k))
    scores = g("Div", product, g.const(1.0 / fault.scores(size)))
    axes = g.const([fault.axis], np.int64)
    if not fault.bare:
        scores = g("Sub", scores, g("ReduceMax", scores, axes, keepdims=1))
    powers = g("Exp", scores)
    weights = g("Div", powers, g("ReduceSum", powers, axes, keepdims=1))
    if fault.again:
        weights = g("Softmax", weights, axis=fault.axis)
    return g("MatMul", times(g, weights, fault.weights(size)), v)


def operator(g: Graph, q: str, k: str, v: str, case: Case) -> str:
    fault, size = case.fault, case.size
    q = times(g, q, fault.query(size))
    out = g("Attention", q, k, v, scale=fault.scores(size))
    return times(g, out, fault.weights(size))


def times(g: Graph, x: str, factor: float) -> str:
    return x if factor == 1.0 else g("Mul", x, g.const(factor))


def softmax(g: Graph, scores: str, case: Case) -> str:
    fault = case.fault
    if fault.bare:
        powers = g("Exp", scores)
        return g("Div", powers, g("ReduceSum", powers, g.const([fault.axis], np.int64)))
    weights = g("Softmax", scores, axis=fault.axis)
    return g("Softmax", weights, axis=fault.axis) if fault.again else weights


SPELLINGS = {"plain": plain, "einsum": einsum, "by hand": by_hand, "operator": operator}
OPSETS = {"plain": 18, "einsum": 21, "by hand": 21, "operator": 23}


def build(case: Case, spelling: str) -> tuple[Any, tuple[np.ndarray, ...]]:
    g, size, x = Graph(opset=OPSETS[spelling]), case.size, "x"
    for number in range(BLOCKS):
        g.scope = f"/blocks.{number}"
        held = {name: g.hold(a, f"{g.scope}/{name}") for name, a in case.block(number).items()}
        y = g("LayerNormalization", x, held["norm.scale"], held["norm.offset"])
        q, k, v = (heads(g, g("MatMul", y, held[n]), size) for n in ("query", "key", "value"))
        out = g("Transpose", SPELLINGS[spelling](g, q, k, v, case), perm=[0, 2, 1, 3])
        out = g("Reshape", out, g.const([0, 0, size.width], np.int64))
        x = g("Add", x, g("MatMul", out, held["output"]))
    return g.model({"x": ["batch", "length", size.width]}, x), (case.x,)


def heads(g: Graph, x: str, size: Size) -> str:
    apart = g("Reshape", x, g.const([0, 0, size.heads, size.head_dim], np.int64))
    return g("Transpose", apart, perm=[0, 2, 1, 3])
