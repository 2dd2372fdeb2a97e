"""Whether the weights of a graph are at initialisation: every norm's weight 1, its bias 0."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import onnx

from rootdk.frontends._onnx.loading import Loaded

__all__ = ["graph_state"]

_NORMS = frozenset(
    "LayerNormalization GroupNormalization InstanceNormalization BatchNormalization "
    "RMSNormalization SimplifiedLayerNormalization".split()
)
_ROOTS = frozenset({"Sqrt", "Reciprocal"})


def graph_state(loaded: Loaded) -> tuple[Literal["init", "trained", "unknown"], str]:
    """Return the state, and how it is known."""
    norms = 0
    for name, plain in dict.fromkeys(_parameters(loaded)):
        norms += 1
        values = np.asarray(loaded.weights[name], dtype=np.float64)
        if not any(bool(np.all(values == value)) for value in plain):
            return "trained", f"{name} of a norm is not at its initial value"
    if not norms:
        return "unknown", "the graph has no norm to tell by"
    return "init", f"all {norms} norm parameters are at their initial values"


def _parameters(loaded: Loaded) -> Iterator[tuple[str, tuple[float, ...]]]:
    """The weights and biases of norms, each with the values that it may start at."""
    makers = {name: node for node in loaded.graph.node for name in node.output}
    for node in loaded.graph.node:
        if node.op_type in _NORMS:
            for name, plain in zip(node.input[1:3], ((1.0, 0.0), (0.0,)), strict=False):
                if name in loaded.weights:
                    yield name, plain
        elif node.op_type == "Mul":
            for gain, normed in (node.input, tuple(reversed(node.input))):
                name = _learned(gain, makers, loaded)
                if name is not None and _is_normed(normed, makers):
                    yield name, (1.0, 0.0)


def _learned(name: str, makers: dict[str, onnx.NodeProto], loaded: Loaded) -> str | None:
    """The vector of weights that a gain is, or is one more than."""
    node = _behind_casts(name, makers)
    sources = [name] if node is None else list(node.input) if node.op_type == "Add" else []
    if node is not None and node.op_type in _MOVED:
        sources = list(node.input[:1])
    for source in sources:
        known = source in loaded.weights and loaded.weights.is_float(source)
        if known and len(loaded.weights.shape(source)) == 1:
            return source if loaded.weights.shape(source)[0] > 1 else None
    return None


_MOVED = frozenset({"Cast", "Identity", "Unsqueeze", "Reshape"})


def _is_normed(name: str, makers: dict[str, onnx.NodeProto]) -> bool:
    """Whether a tensor is something times one over a root: a norm by hand."""
    node = _behind_casts(name, makers)
    if node is None or node.op_type not in {"Mul", "Div"}:
        return False
    sides = [_behind_casts(source, makers) for source in node.input]
    return any(side is not None and _is_root(side, makers) for side in sides)


def _is_root(node: onnx.NodeProto, makers: dict[str, onnx.NodeProto]) -> bool:
    """Whether a tensor is a root, or one over it."""
    if node.op_type in _ROOTS:
        return True
    under = _behind_casts(node.input[1], makers) if node.op_type == "Div" else None
    return under is not None and under.op_type == "Sqrt"


def _behind_casts(name: str, makers: dict[str, onnx.NodeProto]) -> onnx.NodeProto | None:
    node = makers.get(name)
    for _ in range(4):
        if node is None or node.op_type not in {"Cast", "Identity"}:
            return node
        node = makers.get(node.input[0])
    return node
