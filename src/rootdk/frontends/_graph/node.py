"""The small dataflow graph that every frontend lowers a model to.

A node is one tensor: the canonical name of the operation that made it, the nodes it was made
from, and what is known of it without its values. Canonical operations are listed in
``OPERATIONS``; a frontend maps its own operations to these, and what it cannot map is
``opaque``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from rootdk.records import Source

__all__ = ["HOMOGENEOUS", "LAYOUT", "MAPPED", "OPERATIONS", "SCORES", "Kind", "Node"]

# Values of ``Node.on_scores``: entries of a query-key product, and a learned map over them.
SCORES = 1
MAPPED = 2


class Kind(IntEnum):
    """What a tensor depends on.

    Nothing; integers among the model's inputs (positions, a padding mask); parameters; the
    model's other inputs; or something that the frontend did not see being made.
    """

    CONSTANT = 0
    INDEX = 1
    PARAMETER = 2
    ACTIVATION = 3
    UNKNOWN = 4


# Operations that only move or repeat entries (a factor passes through them unchanged).
LAYOUT = frozenset(
    "identity view permute unsqueeze squeeze expand slice select cat stack pad rearrange "
    "gather assemble".split()
)
# f(c·x) = c·f(x) for c > 0: a factor passes through them as well.
HOMOGENEOUS = frozenset("relu abs pool amax mean sum".split())
OPERATIONS = (
    LAYOUT
    | HOMOGENEOUS
    | frozenset(
        "leaf constant random parameter input unknown mul div add sub neg pow reciprocal rsqrt "
        "sqrt exp exp2 log tanh clamp maximum where masked_fill softmax log_softmax logsumexp "
        "matmul linear conv norm vector_norm dropout embedding fused nonlinear compare opaque "
        "argmax complex".split()
    )
)


class Node:
    """One tensor of the graph.

    ``inputs`` are the nodes of its tensor arguments in order, ``attrs`` the plain arguments that
    the operation needs (axes, scalars), ``value`` the number a constant of one element holds,
    ``on_scores`` whether it holds scores, ``weights_of`` the softmaxes whose weights it holds,
    ``scope`` the stack of module calls it was made in (call numbers, outermost first).
    """

    __slots__ = (
        "attrs",
        "dtype",
        "index",
        "inputs",
        "kind",
        "module_path",
        "on_scores",
        "op",
        "scope",
        "shape",
        "source",
        "value",
        "weights_of",
    )

    def __init__(
        self,
        index: int,
        op: str,
        inputs: tuple[Node, ...],
        *,
        shape: tuple[int, ...],
        dtype: str,
        kind: Kind,
        attrs: dict[str, Any] | None = None,
        value: float | None = None,
        source: Source | None = None,
        scope: tuple[int, ...] = (),
        module_path: str = "",
    ) -> None:
        self.index = index
        self.op = op
        self.inputs = inputs
        self.shape = shape
        self.dtype = dtype
        self.kind = kind
        self.attrs: dict[str, Any] = attrs if attrs is not None else {}
        self.value = value
        self.source = source
        self.scope = scope
        self.module_path = module_path
        self.on_scores = 0
        self.weights_of: tuple[int, ...] = ()

    def __repr__(self) -> str:
        shown = f" = {self.value!r}" if self.value is not None else ""
        return f"Node({self.index}: {self.op} {self.dtype}{list(self.shape)}{shown})"
