"""Which query heads share a key-value head: counted in the graph, told by equal entries."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from rootdk._lib.arrays import Array
from rootdk.frontends._graph.node import LAYOUT, Node
from rootdk.frontends._sites.numbers import doubles

__all__ = ["POSITIONS", "heads_of_keys", "kv_heads", "repeated_at", "shared_by"]

_LONGEST = 64
POSITIONS = 64
"""How many positions are compared: heads that agree at all of these are one head."""


def kv_heads(key: Node | None, heads: int) -> int:
    """The number of kv heads: what the key path had before its heads were repeated."""
    return min((count for _, count in _repeats(key, heads)), default=heads)


def repeated_at(key: Node | None, heads: int) -> Node | None:
    """The operation that first repeated the heads on the way to an operand, if any did."""
    return min(_repeats(key, heads), key=lambda found: found[0].index, default=(None, 0))[0]


def _repeats(key: Node | None, heads: int) -> Iterator[tuple[Node, int]]:
    """Each operation on the way that repeated entries, and how many kv heads that leaves."""
    node = key
    for _ in range(_LONGEST):
        if node is None or not node.inputs or node.op not in LAYOUT | {"mul", "div", "add"}:
            return
        if _may_repeat(node):
            have, want = math.prod(node.inputs[0].shape), math.prod(node.shape)
            if 0 < have < want and want % have == 0 and heads % (want // have) == 0:
                yield node, heads // (want // have)
        node = max(node.inputs[:2], key=lambda n: n.kind)


def _may_repeat(node: Node) -> bool:
    if node.op in {"cat", "stack"}:
        return all(source is node.inputs[0] for source in node.inputs)
    return node.op in {"expand", "rearrange", "gather"}


def heads_of_keys(query: Node, key: Array, kv: int) -> tuple[int, ...] | None:
    """As ``shared_by``, and None where the query's own axes say that heads are shared so."""
    found = shared_by(key, kv)
    if found is None or list(found) == sorted(found):
        return found
    return None if _grouped_apart(query, len(found), kv) else found


def _grouped_apart(query: Node, heads: int, kv: int) -> bool:
    """Whether the query's heads were written as two axes, (queries per kv head, kv heads).

    Whoever writes them so has said which query heads belong together.
    """
    node, pair = query, (heads // max(kv, 1), kv)
    for _ in range(_LONGEST):
        if any(pair == couple for couple in zip(node.shape, node.shape[1:], strict=False)):
            return True
        if not node.inputs or node.op not in LAYOUT | {"mul", "div", "add", "norm"}:
            return False
        node = max(node.inputs[:2], key=lambda n: (n.kind, len(n.shape)))
    return False


def shared_by(operand: Array, kv: int) -> tuple[int, ...] | None:
    """For each query head, the number of the key-value head that it reads.

    Parameters
    ----------
    operand : (batch, heads, positions, width)
        Keys or values as the product takes them, one for each query head.
    kv : int
        How many different ones there should be.

    Returns
    -------
    tuple of int or None
        Numbered in the order in which query heads first read them. None where there is nothing
        to tell: one key-value head, as many as query heads, or heads whose entries do not fall
        into ``kv`` lots of the same size.
    """
    heads = int(operand.shape[1])
    if not 1 < kv < heads or heads % kv or not operand.shape[0] or not operand.shape[2]:
        return None
    # Adding 0 makes one of both zeros, so that equal numbers are equal bytes.
    entries = doubles(operand[0, :, :POSITIONS]).reshape(heads, -1) + 0.0
    known: dict[bytes, int] = {}
    found = tuple(known.setdefault(row.tobytes(), len(known)) for row in entries)
    if len(known) != kv or not bool((np.bincount(found) == heads // kv).all()):
        return None
    return found
