"""Tell the path of a product from what stands beside it, and a norm from a factor."""

from __future__ import annotations

from rootdk.frontends._graph.node import LAYOUT, Kind, Node
from rootdk.frontends._graph.trail import FactorStep, Values

__all__ = [
    "entries",
    "has_gain",
    "is_norm_of",
    "learned_steps",
    "multiplier",
    "origin",
    "split_product",
    "words",
]


def learned_steps(
    node: Node, side: Node, value: float | None, values: Values
) -> tuple[FactorStep, ...]:
    """A learned factor, and apart from it the constants that were multiplied into it."""
    constant, at = 1.0, side
    while at.op in LAYOUT | {"mul", "div"} and at.inputs:
        if at.op in LAYOUT:
            if len(at.inputs) != 1:
                break
            at = at.inputs[0]
            continue
        path, other = split_product(at)
        number = at.attrs.get("scalar") if other is None else other.value
        if number is None and other is not None and other.kind <= Kind.INDEX:
            number = values.uniform(other)
        if number is None or (other is not None and other.kind > Kind.INDEX) or not number:
            break
        constant *= multiplier(at, number)
        at = path
    if node.op == "div":
        constant = 1.0 / constant
        value = 1.0 / value if value else None
    rest = value / constant if value is not None else None
    learned = FactorStep(node, rest, "learned", "a learned factor")
    if constant == 1.0:
        return (learned,)
    return (learned, FactorStep(node, constant, origin="a constant inside a learned factor"))


def multiplier(node: Node, number: float) -> float:
    """By what a product or quotient with a number multiplies; 0 stays what it is."""
    return 1.0 / number if node.op == "div" and number else float(number)


def split_product(node: Node) -> tuple[Node, Node | None]:
    """The node that carries the path and the one beside it (None for a plain number)."""
    if "scalar" in node.attrs:
        return node.inputs[0], None
    first, second = node.inputs[0], node.inputs[1]
    if node.op == "div":
        return first, second
    if Kind.UNKNOWN in (first.kind, second.kind) and Kind.ACTIVATION in (first.kind, second.kind):
        return (first, second) if first.kind == Kind.ACTIVATION else (second, first)
    if first.kind == second.kind:
        if is_norm_of(node, second, first):
            return second, first
        # Of two activations the one with as many entries as the result carries the path.
        small = entries(first) < entries(second)
        return (second, first) if small else (first, second)
    return (first, second) if first.kind > second.kind else (second, first)


def entries(node: Node) -> int:
    count = 1
    for size in node.shape:
        count *= size
    return count


_NORM_TAIL = LAYOUT | frozenset(
    "rsqrt reciprocal pow sqrt clamp maximum relu where div mul add sub sum mean "
    "vector_norm".split()
)


def is_norm_of(node: Node, path: Node, side: Node) -> bool:
    """Whether ``side`` is one over a size of ``path`` itself, so that the product is a norm."""
    if side.kind != Kind.ACTIVATION or not side.shape:
        return False
    start = _centred(path)
    todo, seen = [(side, False)], set[tuple[int, bool]]()
    while todo:
        current, reduced = todo.pop()
        # What is normalised may be a sum or a mean itself: only one on the way back to it counts.
        if reduced and origin(current) is start:
            return True
        reduced = reduced or current.op in {"mean", "sum", "vector_norm"}
        if (current.index, reduced) in seen or len(seen) > 40 or current.op not in _NORM_TAIL:
            continue
        seen.add((current.index, reduced))
        todo.extend((source, reduced) for source in current.inputs)
    return False


def _centred(path: Node) -> Node:
    """What ``path`` is, and if that is a tensor without its own mean, the tensor."""
    node = origin(path)
    if node.op != "sub" or len(node.inputs) != 2:
        return node
    whole, mean = origin(node.inputs[0]), origin(node.inputs[1])
    if mean.op == "div" and "scalar" in mean.attrs:
        mean = origin(mean.inputs[0])
    return whole if mean.op in {"mean", "sum"} and origin(mean.inputs[0]) is whole else node


def has_gain(side: Node) -> bool:
    """Whether parameters were multiplied into what makes a product a norm."""
    todo, seen = [side], set[int]()
    while todo:
        current = todo.pop()
        if current.kind == Kind.PARAMETER:
            return True
        if current.index not in seen and current.op in LAYOUT | {"mul"}:
            seen.add(current.index)
            todo.extend(current.inputs)
    return False


def origin(node: Node) -> Node:
    while node.op in LAYOUT and len(node.inputs) == 1:
        node = node.inputs[0]
    return node


def words(node: Node) -> str:
    return "divided by a constant" if node.op == "div" else "multiplied by a constant"
