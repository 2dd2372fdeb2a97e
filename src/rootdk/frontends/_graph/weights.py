"""From the product with the values back to the softmax: what happened to the weights."""

from __future__ import annotations

from dataclasses import dataclass, field

from rootdk.frontends._graph.axes import Axes, AxesLostError, advance
from rootdk.frontends._graph.factors import multiplier
from rootdk.frontends._graph.node import LAYOUT, Kind, Node
from rootdk.frontends._graph.trail import FactorStep, Values

__all__ = ["WeightsTrail", "origin_of_sum", "walk_weights"]


@dataclass
class WeightsTrail:
    """What lies between a softmax and the product with the values.

    ``remade``: a product or an operation that is not understood made the entries anew (an
    inverse, a map over heads), so that their axes need not be those of the weights.
    """

    factors: list[FactorStep] = field(default_factory=list)
    dropout: float = 0.0
    dropout_node: Node | None = None
    mask: Node | None = None
    renormalised: Node | None = None
    softmax: Node | None = None
    mixed: bool = False
    remade: bool = False
    cleaned: bool = False
    axes: Axes | None = None


def walk_weights(operand: Node, softmax: Node, axes: Axes | None, values: Values) -> WeightsTrail:
    """Walk from ``operand`` back to ``softmax``; ``axes`` are those of the softmax."""
    trail = WeightsTrail()
    links: list[tuple[Node, int]] = []
    node = operand
    while node is not softmax:
        position = _carrier(node, softmax.index)
        links.append((node, position))
        node = node.inputs[position]
    for node, position in reversed(links):
        _notice(node, position, trail, values)
    trail.axes = _followed(links, axes)
    return trail


def _followed(links: list[tuple[Node, int]], axes: Axes | None) -> Axes | None:
    try:
        for node, position in reversed(links):
            if axes is not None:
                axes = advance(node, axes, position)
    except AxesLostError:
        return None
    return axes


def _carrier(node: Node, softmax: int) -> int:
    for position, source in enumerate(node.inputs):
        if source.index == softmax or softmax in source.weights_of:
            return position
    raise LookupError(softmax)


def _notice(node: Node, position: int, trail: WeightsTrail, values: Values) -> None:
    if node.op in LAYOUT:
        return
    if node.op in {"mul", "div"}:
        _notice_product(node, position, trail, values)
    elif node.op == "dropout":
        if node.attrs.get("p", 0.0) > 0.0:
            trail.dropout, trail.dropout_node = float(node.attrs["p"]), node
            if node.attrs.get("rescales"):
                # The division by the share that is kept is the dropout's own.
                own = node.inputs[0]
                trail.factors = [step for step in trail.factors if step.node is not own]
    elif node.op in {"softmax", "log_softmax"}:
        trail.softmax = node
    elif node.op in {"masked_fill", "where"}:
        mask = node.inputs[1] if node.op == "masked_fill" else node.inputs[0]
        if mask.kind <= Kind.INDEX and mask.shape and mask.shape[-1] != 1:
            trail.mask = node
        else:
            trail.cleaned = True
    elif node.attrs.get("name") == "nan_to_num":
        trail.cleaned = True
    elif node.attrs.get("name") in {"tril", "triu"}:
        trail.mask = node
    else:
        trail.mixed = True
        trail.remade = trail.remade or node.op in {"opaque", "matmul", "linear", "conv"}


def _notice_product(node: Node, position: int, trail: WeightsTrail, values: Values) -> None:
    if "scalar" in node.attrs:
        number = multiplier(node, node.attrs["scalar"])
        trail.factors.append(FactorStep(node, number, origin="a factor on the weights"))
        return
    other = node.inputs[1 - position] if len(node.inputs) > 1 else node.inputs[0]
    if node.op == "div" and origin_of_sum(other) is not None:
        trail.renormalised = node
        return
    rate = _drop_rate(other) if node.op == "mul" else None
    if rate is not None:
        trail.dropout, trail.dropout_node = rate, node
        return
    value = other.value if other.value is not None else values.uniform(other)
    if value is not None and other.kind <= Kind.INDEX:
        value = 1.0 / value if node.op == "div" and value else value
        trail.factors.append(FactorStep(node, value, origin="a factor on the weights"))
    elif node.op == "mul" and values.binary(other):
        trail.mask = node
    else:
        trail.mixed = True


def _drop_rate(node: Node) -> float | None:
    """The share that random numbers drop, 0.5 where nothing says; None where nothing is random."""
    while node.op in LAYOUT | {"mul", "div"} and node.inputs and "p" not in node.attrs:
        node = node.inputs[0]
    if "p" in node.attrs:
        return float(node.attrs["p"])
    return 0.5 if node.op == "random" else None


def origin_of_sum(node: Node) -> Node | None:
    """The sum that ``node`` is, behind reshapes, a lower bound or a small constant added."""
    for _ in range(12):
        if node.op == "sum" or (node.op == "vector_norm" and node.attrs.get("ord") == 1.0):
            return node
        if node.op not in LAYOUT | {"add", "clamp", "maximum"} or not node.inputs:
            return None
        if node.op == "add" and len(node.inputs) > 1:
            sums = [origin_of_sum(source) for source in node.inputs]
            return next((found for found in sums if found is not None), None)
        node = node.inputs[0]
    return None
