"""The softmax functions of ``jax.nn``, found in the pieces that a jaxpr holds of them.

A softmax of the library's is one operation to whoever calls it, and is recorded as one; a
softmax written by hand stays in its pieces. Which of the two it is, the source says.
"""

from __future__ import annotations

from rootdk.frontends._graph.node import Node
from rootdk.frontends._graph.tags import behind_layout
from rootdk.frontends._jax.step import Step
from rootdk.frontends._jax.tape import Value

__all__ = ["library_softmax"]

_LAST = {"div": "softmax", "sub": "log_softmax", "add": "logsumexp", "add_any": ""}
"""With which primitive each function ends."""


def library_softmax(step: Step) -> list[Value] | None:
    """The equation as the last one of a function of the library; None otherwise."""
    region = step.tape.region
    if region is None:
        return None
    if step.name == "sub":
        step.tape.remember(step.values[0])
    if region != _LAST[step.name]:
        return None
    one, two = (behind_layout(value.node) for value in step.values)
    if step.name == "div":
        exponential, total = one, two
    else:
        logarithm = two if step.name == "sub" else one
        total = _through(logarithm, "log", "abs")
        exponential = None
    scores, dim = _softmax_of(exponential, total, step)
    if scores is None:
        return None
    op = _LAST[step.name]
    attrs = {"dim": dim, "spelling": f"jax.nn.{op}"}
    return [step.out(op, [scores], lambda x: x, attrs)]


def _softmax_of(exponential: Node | None, total: Node, step: Step) -> tuple[Value | None, int]:
    """What the sum of exponentials was taken of, and over which axis."""
    dims = total.attrs.get("dims", ())
    if total.op != "sum" or not total.inputs or len(dims) != 1:
        return None, 0
    summed = behind_layout(total.inputs[0])
    if summed.op == "where":
        summed = behind_layout(summed.inputs[1])
    if summed.op != "exp" or exponential not in {None, summed}:
        return None, 0
    shifted = behind_layout(summed.inputs[0])
    if shifted.op != "sub" or len(shifted.inputs) != 2:
        return None, 0
    return step.tape.remembered(shifted.inputs[0]), dims[0]


def _through(node: Node, *ops: str) -> Node:
    for op in ops:
        if node.op == op:
            node = behind_layout(node.inputs[0])
    return node
