"""Where the entries of a tensor lay before an operation that only moves entries."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rootdk.frontends._graph.node import Node
from rootdk.frontends._graph.trail import UnresolvedError
from rootdk.frontends._sites.numbers import Floats
from rootdk.frontends._sites.replay import Holder, LostError

__all__ = ["Moved", "broadcast", "sources_of"]

_Places = npt.NDArray[np.int64]

# Numbers from here on stand for places; what an operation writes of its own is not so large.
_FIRST = float(1 << 44)
# An operation on more entries is not run again to see where they go.
_MOST = 1 << 26


@dataclass(frozen=True)
class Moved:
    """Some of the entries: which, and where they lie in ``node``.

    Without a node the operation wrote ``numbers`` of its own.
    """

    which: npt.NDArray[np.bool_]
    node: Node | None
    places: _Places
    numbers: Floats


def sources_of(node: Node, at: _Places, holder: Holder) -> Iterator[Moved]:
    """Where the entries at flat places ``at`` of ``node`` lay in its inputs.

    Raises
    ------
    UnresolvedError
        If the operation is not known and cannot be run again.
    """
    if node.op == "cat":
        yield from _joined(node, at)
        return
    places = _before(node, at)
    if places is not None:
        yield Moved(np.ones(at.size, np.bool_), node.inputs[0], places, np.zeros(0))
        return
    yield from _run(node, at, holder)


def broadcast(at: _Places, shape: tuple[int, ...], source: tuple[int, ...]) -> _Places:
    """Flat places in a tensor of shape ``source`` that was broadcast to ``shape``."""
    if source == shape:
        return at
    index = np.unravel_index(at, shape)
    kept = index[len(shape) - len(source) :]
    return _flat([np.where(n == 1, 0, i) for i, n in zip(kept, source, strict=True)], source, at)


def _flat(index: list[_Places], shape: tuple[int, ...], at: _Places) -> _Places:
    if not shape:
        return np.zeros_like(at)
    return np.asarray(np.ravel_multi_index(tuple(index), shape), dtype=np.int64)


def _before(node: Node, at: _Places) -> _Places | None:
    """The places in the first input; None where only running the operation again can tell."""
    op, source = node.op, node.inputs[0].shape
    if op in {"view", "unsqueeze", "squeeze"} and math.prod(source) == math.prod(node.shape):
        return at
    if op in {"identity", "expand"}:
        return broadcast(at, node.shape, source)
    if op not in {"permute", "slice", "select"}:
        return None
    index = [np.asarray(i, dtype=np.int64) for i in np.unravel_index(at, node.shape)]
    if op == "permute":
        order = node.attrs["dims"]
        index = [index[order.index(i)] for i in range(len(order))]
    elif op == "slice":
        dim = node.attrs["dim"]
        index[dim] = index[dim] * node.attrs.get("step", 1) + node.attrs["start"]
    else:
        index.insert(node.attrs["dim"], np.full_like(at, node.attrs["at"]))
    return _flat(index, source, at)


def _joined(node: Node, at: _Places) -> Iterator[Moved]:
    """The parts of a concatenation."""
    dim = node.attrs["dim"]
    index = [np.asarray(i, dtype=np.int64) for i in np.unravel_index(at, node.shape)]
    start = 0
    for source in node.inputs:
        which = (index[dim] >= start) & (index[dim] < start + source.shape[dim])
        mine = [i[which] for i in index]
        mine[dim] = mine[dim] - start
        yield Moved(which, source, _flat(mine, source.shape, at[which]), np.zeros(0))
        start += source.shape[dim]


def _run(node: Node, at: _Places, holder: Holder) -> Iterator[Moved]:
    """Run the operation on the numbers of its entries, and read off where each went."""
    sources = [source for source in node.inputs if "float" in source.dtype]
    sizes = [math.prod(source.shape) for source in sources]
    name = node.attrs.get("name", node.op)
    if sum(sizes) + math.prod(node.shape) > _MOST:
        raise UnresolvedError(f"the scores are too many to follow them through {name}")
    starts = np.cumsum([0, *sizes])
    numbered = [
        np.arange(_FIRST + start, _FIRST + start + size).reshape(source.shape)
        for source, size, start in zip(sources, sizes, starts[:-1], strict=True)
    ]
    try:
        out = holder.moved(node, numbered).reshape(-1)[at]
    except (LostError, RuntimeError, TypeError, NotImplementedError):
        raise UnresolvedError(f"entries of the scores are rearranged ({name})") from None
    number = out - _FIRST
    for source, start, end in zip(sources, starts[:-1], starts[1:], strict=True):
        which = (number >= start) & (number < end)
        yield Moved(which, source, (number[which] - start).astype(np.int64), np.zeros(0))
    own = ~((number >= 0) & (number < starts[-1]))
    yield Moved(own, None, np.zeros(0, np.int64), out[own])
