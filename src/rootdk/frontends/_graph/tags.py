"""What is known of a tensor the moment it is made: what it depends on, whether it is scores."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rootdk.frontends._graph.node import LAYOUT, MAPPED, SCORES, Kind, Node

__all__ = [
    "behind_layout",
    "inherited_weights",
    "kind_of",
    "log_weights",
    "may_be_product",
    "may_be_scores",
    "meets_values",
    "scores_flag",
]


def kind_of(op: str, inputs: tuple[Node, ...]) -> Kind:
    if op in {"constant", "random"}:
        return Kind.CONSTANT
    kinds = {source.kind for source in inputs}
    if not kinds:
        return Kind.CONSTANT
    if Kind.ACTIVATION in kinds:
        return Kind.ACTIVATION
    if Kind.UNKNOWN in kinds:
        product = op in {"matmul", "linear", "conv", "embedding"} and Kind.PARAMETER in kinds
        return Kind.ACTIVATION if product else Kind.UNKNOWN
    if kinds == {Kind.PARAMETER, Kind.INDEX} or kinds == set(Kind) - {
        Kind.ACTIVATION,
        Kind.UNKNOWN,
    }:
        return Kind.ACTIVATION
    return max(kinds)


def _direct_parameter(node: Node) -> int | None:
    """Which of the first two inputs is a parameter itself, seen through layout."""
    for position in (1, 0):
        if position >= len(node.inputs):
            continue
        source = node.inputs[position]
        while source.op in LAYOUT and len(source.inputs) == 1:
            source = source.inputs[0]
        if source.kind == Kind.PARAMETER and source.op == "parameter":
            return position
    return None


def scores_flag(node: Node) -> int:
    """Whether a tensor holds scores: made by a product of activations and still elementwise."""
    inputs = node.inputs
    flags = [source.on_scores for source in inputs]
    if node.op in {"linear", "conv"}:
        return MAPPED if flags and flags[0] == SCORES else 0
    if node.op == "matmul":
        if SCORES in flags[:2]:
            other = inputs[1 if flags[0] == SCORES else 0]
            return MAPPED if other.kind <= Kind.PARAMETER else 0
        if any(source.weights_of for source in inputs[:2]):
            return 0
        kinds = [source.kind for source in inputs[:2]]
        if min(kinds) < Kind.PARAMETER:
            return 0
        direct = _direct_parameter(node)
        if set(kinds) == {Kind.PARAMETER}:
            # Learned queries may meet projections of themselves; two weights make a weight.
            return SCORES if direct is None else 0
        if Kind.PARAMETER in kinds:
            # Learned queries make scores of activations; computed weights project them.
            return MAPPED if direct in {None, 0} else 0
        return SCORES
    if node.op in {"sum", "mean"} and inputs and "factors" in inputs[0].attrs:
        return 0 if inputs[0].weights_of else SCORES
    if node.op == "norm":
        return MAPPED if flags and flags[0] == SCORES else 0
    if node.op in {
        "softmax",
        "log_softmax",
        "fused",
        "compare",
        "argmax",
        "constant",
        "random",
    }:
        return 0
    return max(flags, default=0)


def may_be_scores(node: Node) -> bool:
    return bool(node.on_scores) or (node.kind == Kind.UNKNOWN and len(node.shape) >= 2)


def behind_layout(node: Node) -> Node:
    while node.op in LAYOUT and len(node.inputs) == 1:
        node = node.inputs[0]
    return node


def may_be_product(node: Node) -> bool:
    one, two = node.inputs
    if node.on_scores or node.weights_of or Kind.ACTIVATION not in {one.kind, two.kind}:
        return False
    if min(one.kind, two.kind) < Kind.PARAMETER or one.shape == two.shape:
        return False
    return len(node.shape) >= 3 and one.shape != node.shape != two.shape


def _maps_weights(node: Node) -> bool:
    """A learned map over weights keeps them weights (talking heads after the softmax)."""
    return (
        node.op in {"matmul", "linear", "conv"}
        and bool(node.inputs[0].weights_of or (len(node.inputs) > 1 and node.inputs[1].weights_of))
        and _direct_parameter(node) is not None
    )


def meets_values(node: Node) -> bool:
    if node.op == "matmul":
        return any(s.weights_of for s in node.inputs[:2]) and _direct_parameter(node) is None
    times = node.inputs[0] if node.inputs else None
    if times is None or times.op != "mul" or len(times.inputs) != 2 or not times.weights_of:
        return False
    one, two = times.inputs
    return (
        bool(one.weights_of) != bool(two.weights_of)
        and Kind.ACTIVATION in {one.kind, two.kind}
        and len((two if one.weights_of else one).shape) >= 3
    )


def log_weights(node: Node) -> Node | None:
    """The logarithm of a softmax of scores that a product multiplies with activations, if any.

    Where the other side holds weights, the product is a cross-entropy of distributions.
    """
    if len(node.inputs) < 2:
        return None
    at, other = node.inputs[:2]
    while at.op in {"view", "expand", "identity"} and len(at.inputs) == 1:
        at = at.inputs[0]
    if at.op != "log_softmax" or at.inputs[0].on_scores != SCORES:
        return None
    return at if other.kind == Kind.ACTIVATION and not other.weights_of else None


_MADE_ANEW = frozenset({"matmul", "linear", "conv", "sum", "constant", "random"})


def inherited_weights(node: Node, sizes: Mapping[int, int]) -> tuple[int, ...]:
    """The softmaxes whose weights a tensor still holds; ``sizes`` are their numbers of entries.

    A sum with an activation that holds none (a residual) holds none either, unless it is as large
    as the weights: what a router has weighted would else look like weights in every later layer. A
    choice or a position that followed from weights holds none either.
    """
    if "float" not in node.dtype or node.op in {"compare", "argmax"}:
        return ()
    if node.op in _MADE_ANEW and not _maps_weights(node):
        return ()
    if node.op in {"add", "sub", "assemble", "cat"} and any(
        source.kind == Kind.ACTIVATION and "float" in source.dtype and not source.weights_of
        for source in node.inputs
    ):
        entries = math.prod(node.shape)
        held = {i for source in node.inputs for i in source.weights_of}
        return tuple(i for i in held if sizes.get(i) == entries)
    return tuple({i for source in node.inputs for i in source.weights_of})
