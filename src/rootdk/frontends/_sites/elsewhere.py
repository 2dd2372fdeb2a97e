"""Attention that is no softmax over query-key products: said in words, so that it can be listed."""

from __future__ import annotations

from rootdk.frontends._graph.node import LAYOUT, SCORES, Kind, Node
from rootdk.frontends._graph.tags import behind_layout

__all__ = [
    "NO_SOFTMAX",
    "SEGMENTS",
    "UNDIVIDED",
    "bare_scores",
    "place_of",
    "softmax_elsewhere",
    "sums_segments",
]

NO_SOFTMAX = "attention without a softmax"
UNDIVIDED = (
    "exponentials of products mix values and are not divided by their own sum; a softmax over "
    "blocks of keys that is put together later looks like this"
)

SEGMENTS = (
    "exponentials are divided by their sums over the groups of rows that an index gives, as in "
    "attention over the edges of a graph"
)

_ARITHMETIC = LAYOUT | frozenset("mul div add sub neg masked_fill where dropout clamp".split())
_BEFORE_A_SUM = LAYOUT | frozenset("gather add clamp maximum".split())
_STEPS = 24


def place_of(node: Node) -> str:
    """The module that a node was made in; the line of code, in none."""
    if node.module_path or node.source is None:
        return node.module_path
    return node.source.location


def softmax_elsewhere(operand: Node, index: int) -> str | None:
    """What the softmax number ``index`` behind ``operand`` is over; None if it is not reached."""
    node = operand
    for _ in range(_STEPS):
        if node.index == index:
            return (
                f"its weights mix values, and {_argument(node.inputs[0])}" if node.inputs else None
            )
        node = next((s for s in node.inputs if s.index == index or index in s.weights_of), node)
    return None


def _argument(node: Node) -> str:
    """What the argument of a softmax is made by, the first operation that is no arithmetic."""
    for _ in range(_STEPS):
        if node.op not in _ARITHMETIC or not node.inputs:
            break
        node = max(node.inputs[:2], key=lambda source: source.kind)
    name = str(node.attrs.get("name") or node.op).strip("_")
    return f"it is over the outcome of {name}, which is no query-key product"


def bare_scores(node: Node) -> str | None:
    """How scores became what is multiplied with the values, where no softmax stands between.

    None where the operand is no product of activations.
    """
    functions: list[str] = []
    at = next((source for source in node.inputs[:2] if source.on_scores == SCORES), None)
    for _ in range(_STEPS):
        if at is None:
            return None
        at = behind_layout(at)
        if at.op == "matmul" or "operands" in at.attrs:
            through = " and ".join(dict.fromkeys(reversed(functions)))
            return f"products of activations mix values through {through or 'no function at all'}"
        if at.op not in _ARITHMETIC:
            functions.append(str(at.attrs.get("name") or at.op))
        if _joins_a_stream(at):
            return None
        at = next((source for source in at.inputs if source.on_scores == SCORES), None)
    return None


def _joins_a_stream(node: Node) -> bool:
    """Whether what a product gave is added to activations of its own size: a residual."""
    return node.op in {"add", "sub"} and any(
        source.kind == Kind.ACTIVATION and not source.on_scores and source.shape == node.shape
        for source in node.inputs
    )


def sums_segments(node: Node, exponential: Node) -> bool:
    """Whether ``node`` was picked from sums of an exponential that were scattered by an index."""
    for _ in range(_STEPS):
        if node.op == "assemble":
            return any(behind_layout(source) is exponential for source in node.inputs)
        if node.op not in _BEFORE_A_SUM or not node.inputs:
            return False
        node = max(node.inputs[:2], key=lambda source: source.kind)
    return False
