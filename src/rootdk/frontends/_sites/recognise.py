"""Patterns around a softmax: exponentials by hand, which axis is which, what a cap is."""

from __future__ import annotations

import math

from rootdk.frontends._graph.axes import Axes
from rootdk.frontends._graph.line import ScoreLine
from rootdk.frontends._graph.node import LAYOUT, Kind, Node
from rootdk.frontends._graph.product import is_floor
from rootdk.frontends._graph.tags import behind_layout
from rootdk.frontends._graph.trail import Values
from rootdk.frontends._graph.weights import origin_of_sum
from rootdk.frontends._sites.pending import Pending
from rootdk.records.site import Axis

__all__ = [
    "added_number",
    "adds_to_sum",
    "contracted_labels",
    "drop_cap",
    "exponential_behind",
    "is_shifted",
    "leading_axis",
    "less_row_maximum",
    "part_of_rows",
    "reduced_dim",
    "shapes_of",
]


def exponential_behind(node: Node) -> Node | None:
    """The exponential that ``node`` is, behind reshapes and a mask multiplied in."""
    for _ in range(8):
        if node.op in {"exp", "exp2"}:
            return node
        if node.op in {"mul", "masked_fill", "where"} and node.on_scores:
            node = next(s for s in node.inputs if s.on_scores)
        elif node.op in LAYOUT and node.inputs:
            node = node.inputs[0]
        else:
            return None
    return None


def is_shifted(node: Node) -> bool:
    """Whether a maximum was subtracted from the argument of an exponential."""
    for _ in range(6):
        if node.op == "sub" and len(node.inputs) > 1:
            other = behind_layout(node.inputs[1])
            while other.inputs and (is_floor(other) or other.op in LAYOUT):
                other = behind_layout(other.inputs[0])
            return other.op in {"amax", "logsumexp"} or (
                other.op == "mul" and any(behind_layout(s).op == "amax" for s in other.inputs)
            )
        if node.op in LAYOUT | {"mul", "div", "clamp"} and node.inputs:
            node = node.inputs[0]
        else:
            return False
    return False


def adds_to_sum(node: Node) -> bool:
    """Whether something of size was added to the sum (a sink), not a guard against zero."""
    for _ in range(8):
        if node.op == "add":
            if "scalar" in node.attrs:
                return abs(float(node.attrs["scalar"])) > 1e-3
            others = [s for s in node.inputs if origin_of_sum(s) is None]
            return any(s.value is None or abs(s.value) > 1e-3 for s in others)
        if node.op not in LAYOUT | {"clamp", "maximum"} or not node.inputs:
            return False
        node = node.inputs[0]
    return False


def added_number(node: Node, values: Values) -> float | None:
    """The one constant number that was added to a sum; None if it was something else."""
    for _ in range(8):
        if node.op == "add":
            if "scalar" in node.attrs:
                return float(node.attrs["scalar"])
            others = [s for s in node.inputs if origin_of_sum(s) is None]
            if len(others) != 1 or others[0].kind > Kind.INDEX:
                return None
            return others[0].value if others[0].value is not None else values.uniform(others[0])
        if node.op not in LAYOUT or not node.inputs:
            return None
        node = node.inputs[0]
    return None


def less_row_maximum(node: Node, dim: int) -> bool:
    """Whether the maximum over an axis, and nothing else, was subtracted from a tensor."""
    node = behind_layout(node)
    if node.op != "sub" or len(node.inputs) != 2:
        return False
    largest, whole = behind_layout(node.inputs[1]), math.prod(node.shape)
    return largest.op == "amax" and math.prod(largest.shape) * node.shape[dim] == whole


def reduced_dim(reduced: Node, scores: Node) -> int:
    rank = len(scores.shape)
    if len(reduced.shape) == rank:
        for i, (a, b) in enumerate(zip(reduced.shape, scores.shape, strict=True)):
            if a == 1 != b:
                return i
    return rank - 1


def leading_axis(axes: Axes, dim: int) -> Axis:
    rank = len(axes.dims)
    if dim == rank - 2 and not axes.dims[dim].atoms:
        return "queries"
    if rank == 4:
        return "heads" if dim == 1 else "batch"
    return "heads" if rank == 3 else "other"


def part_of_rows(axes: Axes, dim: int) -> Axis | None:
    """Heads or queries: what ``dim`` numbers where both were the rows of one product."""
    parts = axes.dims_with("Q")
    keys = [axes.dims[i].labels for i in axes.dims_with("K")]
    if len(parts) < 2 or keys != [{"K"}]:
        return None
    return "queries" if dim == parts[-1] else "heads"


def shapes_of(node: Node) -> dict[str, int]:
    shape = (1,) * (4 - len(node.shape)) + node.shape
    return {
        "batch": math.prod(shape[:-3]),
        "num_heads": shape[-3],
        "num_kv_heads": shape[-3],
        "queries": shape[-2],
        "keys": shape[-1],
        "head_dim": 0,
    }


def drop_cap(pending: Pending, line: ScoreLine) -> None:
    """c and 1/c around a tanh are the softcap, not factors."""
    cap = line.softcap
    steps = [item for item in pending.factors if item[1] == "scores"]
    after = next((i for i in steps if i[0].value == cap), None)
    before = next(
        (i for i in steps if i[0].value is not None and cap and abs(i[0].value * cap - 1.0) < 1e-5),
        None,
    )
    if after is not None and before is not None:
        pending.factors.remove(after)
        pending.factors.remove(before)


def contracted_labels(node: Node, operand: Node, position: int, axes: Axes | None) -> set[str]:
    """The labels of the axis of the weights that the product with the values sums over."""
    if axes is None or not axes.dims:
        return set()
    if node.op == "matmul":
        dim = len(axes.dims) - (1 if position == 0 else 2)
    else:
        dims = node.attrs.get("dims", ())
        rank = len(node.inputs[0].shape)
        if len(dims) != 1:
            return set()
        dim = dims[0] - (rank - len(axes.dims))
    return set(axes.labels_of(dim)) if 0 <= dim < len(axes.dims) else set()
