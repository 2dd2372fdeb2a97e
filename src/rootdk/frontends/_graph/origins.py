"""Which axes of a projection's output became the positions of an operand, and which its channels.

Labels: ``T0``, ``T1`` … for the leading axes of the projection's output, ``F`` for its features.
A dimension of a later tensor is a run of pieces of these; a reshape that cuts across them leaves
dimensions that hold ``X``, a mixture, or ``T*`` where only leading axes were cut.
"""

from __future__ import annotations

from math import prod
from typing import Literal

from rootdk.frontends._graph.node import LAYOUT, Kind, Node
from rootdk.frontends._graph.trail import Trail

__all__ = ["Along", "attends_over", "over_both"]

Along = Literal["positions", "features", "mixture"]
_Dim = tuple[tuple[str, int], ...]
_FEATURES, _MIXTURE, _TOKENS = "F", "X", "T*"
_ELEMENTWISE = frozenset("mul div add sub neg norm dropout identity clamp tanh relu".split())
_LONGEST = 64


def attends_over(node: Node, trail: Trail, *, transposed: bool) -> Along | None:
    """What the positions of an operand are; None where its axes cannot be followed.

    ``transposed``: the positions are its last axis, its channels the one before.
    """
    if len(trail.terminals) != 1:
        return None
    (terminal,) = trail.terminals
    way = _way(node, terminal) if trail.kind in {"projection", "norm"} else None
    if way is None or len(terminal.shape) < 2:
        return None
    start, way = _unfolded(terminal, way)
    if len(start) < 3 or start[-2] < 2:
        return None
    dims: tuple[_Dim, ...] = tuple(
        ((_FEATURES if at == len(start) - 1 else f"T{at}", size),) for at, size in enumerate(start)
    )
    for link, position in reversed(way):
        advanced = _advance(link, dims, position)
        if advanced is None:
            return None
        dims = advanced
    if len(dims) < 2:
        return None
    channels, along = (dims[-2], dims[-1]) if transposed else (dims[-1], dims[-2])
    return _judged(dims[:-2], along, channels)


def _unfolded(
    terminal: Node, way: list[tuple[Node, int]]
) -> tuple[tuple[int, ...], list[tuple[Node, int]]]:
    """The shape to start from: a product of matrices has batch and positions as one axis."""
    shape = terminal.shape
    while len(shape) == 2 and way and way[-1][0].op in {"view", "identity"}:
        after = way[-1][0].shape
        if after[-1:] != shape[-1:]:
            break
        shape, way = after, way[:-1]
    return shape, way


def over_both(query: Along | None, key: Along | None) -> Along:
    """What scores are between; positions, unless both operands say otherwise."""
    return query if query is not None and query == key else "positions"


def _judged(leading: tuple[_Dim, ...], along: _Dim, channels: _Dim) -> Along | None:
    labels, inner = _labels(along), _labels(channels)
    tokens = {label for label in labels if label.startswith("T")}
    if not inner <= {_FEATURES, _MIXTURE} or prod(size for _, size in along) < 2:
        return None
    if labels == {_FEATURES} and inner == {_FEATURES}:
        return "features"
    elsewhere = {label for dim in leading for label in _labels(dim)}
    if _MIXTURE in labels or (_FEATURES in labels and tokens & elsewhere):
        return "mixture"
    return "positions"


def _labels(dim: _Dim) -> set[str]:
    return {label for label, size in dim if size != 1}


def _way(node: Node, terminal: Node) -> list[tuple[Node, int]] | None:
    """The nodes from an operand back to its terminal, and which input carries the path."""
    way: list[tuple[Node, int]] = []
    while node is not terminal:
        if node.op not in LAYOUT | _ELEMENTWISE or not node.inputs or len(way) > _LONGEST:
            return None
        kinds = [source.kind for source in node.inputs]
        position = next((i for i, kind in enumerate(kinds) if kind >= Kind.ACTIVATION), 0)
        way.append((node, position))
        node = node.inputs[position]
    return way


def _advance(node: Node, dims: tuple[_Dim, ...], position: int) -> tuple[_Dim, ...] | None:
    op = node.op
    if op == "view" and not node.attrs.get("dtype"):
        return _reshaped(dims, node.shape)
    if op == "permute":
        return tuple(dims[i] for i in node.attrs["dims"])
    if op == "unsqueeze":
        at = node.attrs["dim"] % (len(dims) + 1)
        return (*dims[:at], (), *dims[at:])
    if op == "squeeze":
        return tuple(d for i, d in enumerate(dims) if i not in node.attrs["dims"])
    if op == "select":
        at = node.attrs["dim"]
        return (*dims[:at], *dims[at + 1 :])
    if op in {"slice", "cat"}:
        at = node.attrs["dim"]
        whole = _resized(dims[at], node.shape[at])
        return None if whole is None else (*dims[:at], whole, *dims[at + 1 :])
    if op in {"expand", "identity"} or op in _ELEMENTWISE:
        missing = len(node.shape) - len(dims)
        if missing < 0:
            return None
        grown: list[_Dim] = []
        in_front: tuple[_Dim, ...] = ((),) * missing
        for dim, size in zip((*in_front, *dims), node.shape, strict=True):
            have = prod(n for _, n in dim)
            if have != size and have != 1:
                return None
            grown.append(dim if have == size else (("N", size),))
        return tuple(grown)
    return None


def _resized(dim: _Dim, size: int) -> _Dim | None:
    """A part of a dimension, or one that was made longer."""
    if prod(n for _, n in dim) == size:
        return dim
    labels = _labels(dim)
    return ((labels.pop(), size),) if len(labels) == 1 else None


def _reshaped(dims: tuple[_Dim, ...], shape: tuple[int, ...]) -> tuple[_Dim, ...]:
    """Pieces handed out to new dimensions; where one is cut across, the rest of it is a mixture."""
    pending = [piece for dim in dims for piece in dim if piece[1] != 1]
    out: list[_Dim] = []
    for size in shape:
        made: list[tuple[str, int]] = []
        need = size
        while need > 1 and pending:
            label, have = pending.pop(0)
            if need % have == 0:
                made.append((label, have))
                need //= have
            elif have % need == 0:
                made.append((label, need))
                pending.insert(0, (label, have // need))
                need = 1
            else:
                labels = {label}
                while have % need and pending:
                    more, count = pending.pop(0)
                    labels, have = labels | {more}, have * count
                label = _MIXTURE if labels & {_FEATURES, _MIXTURE} else _TOKENS
                made.append((label, need))
                pending.insert(0, (label, have // need))
                need = 1
        out.append(tuple(made))
    return tuple(out)
