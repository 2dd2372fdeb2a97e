"""Which entry of which query-key product stands at a place of scores put together of pieces.

Places are followed back one operation at a time. An entry is ``factor · product + offset`` of
what stands at its place in an earlier tensor; where that tensor holds no scores, the offset is
all there is. What only moves entries is inverted by arithmetic on the places, or else run again
on an array of places.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rootdk._lib.arrays import quiet
from rootdk.frontends._graph.node import LAYOUT, Node
from rootdk.frontends._graph.pieces import Joined, carriers, factor_at
from rootdk.frontends._graph.trail import UnresolvedError
from rootdk.frontends._sites.moves import Moved, broadcast, sources_of
from rootdk.frontends._sites.numbers import Floats, picked
from rootdk.frontends._sites.replay import Holder

__all__ = ["Entries", "entries_at"]

_Places = npt.NDArray[np.int64]


@dataclass
class Entries:
    """For each place: the number of its piece (-1: none), where in the product, and the rest.

    ``factor`` and ``offset`` say what was done to the entry of the product up to the place where
    the scores are one tensor; an offset that is not known is NaN.
    """

    piece: _Places
    place: _Places
    factor: Floats
    offset: Floats


@dataclass
class _Front:
    """What is still to be followed: at each node, which entries, and where they lie in it."""

    nodes: dict[int, Node] = field(default_factory=dict)
    waiting: dict[int, list[tuple[_Places, _Places]]] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)

    def push(self, node: Node, who: _Places, at: _Places) -> None:
        if not who.size:
            return
        if node.index not in self.waiting:
            self.nodes[node.index] = node
            self.waiting[node.index] = []
            heapq.heappush(self.order, -node.index)
        self.waiting[node.index].append((who, at))

    def __iter__(self) -> Iterator[tuple[Node, _Places, _Places]]:
        """The nodes from the latest to the earliest: all that meets at one is taken together."""
        while self.order:
            index = -heapq.heappop(self.order)
            parts = self.waiting.pop(index)
            who, at = (np.concatenate(side) for side in zip(*parts, strict=True))
            yield self.nodes[index], who, at


def entries_at(joined: Joined, places: _Places, holder: Holder) -> Entries:
    """What stands at flat ``places`` of the tensor that the scores are joined in.

    Raises
    ------
    UnresolvedError
        If an operation on the way cannot be followed, or a value beside it is no longer held.
    """
    count = places.size
    found = Entries(
        piece=np.full(count, -1),
        place=np.zeros(count, np.int64),
        factor=np.ones(count),
        offset=np.zeros(count),
    )
    numbers = {piece.product.node.index: i for i, piece in enumerate(joined.pieces)}
    front = _Front()
    front.push(joined.node, np.arange(count), places)
    for node, who, at in front:
        if node.index in numbers:
            found.piece[who], found.place[who] = numbers[node.index], at
            _inside(node, who, at, found, holder)
        elif not node.on_scores:
            found.offset[who] = _plus(found, who, _literal(node, at, holder))
            found.factor[who] = 0.0
        elif node.op in LAYOUT:
            for source in sources_of(node, at, holder):
                _moved(source, who, found, front)
        else:
            _step(node, who, at, found, front, holder)
    return found


def _plus(found: Entries, who: _Places, value: Floats | float) -> Floats:
    with quiet():
        return np.asarray(found.offset[who] + found.factor[who] * value)


def _moved(source: Moved, who: _Places, found: Entries, front: _Front) -> None:
    mine = who[source.which]
    if source.node is not None:
        front.push(source.node, mine, source.places)
        return
    # The operation itself wrote a number there (padding).
    found.offset[mine] = _plus(found, mine, source.numbers)
    found.factor[mine] = 0.0


def _step(
    node: Node, who: _Places, at: _Places, found: Entries, front: _Front, holder: Holder
) -> None:
    """A factor, something added, or a fill: undone from the place of its result."""
    if node.op in {"masked_fill", "where"}:
        _fill(node, who, at, found, front, holder)
        return
    (position,) = carriers(node)
    if node.op in {"add", "sub"} and "scalar" not in node.attrs:
        sign = float(node.attrs.get("alpha", 1.0))
        if node.op == "sub":
            sign = 1.0 if position == 1 else -sign
        beside = _value(node, 1 - position, at, holder)
        found.offset[who] = _plus(found, who, beside * sign)
    elif node.op in {"add", "sub"}:
        number = float(node.attrs["scalar"])
        negative = node.op == "sub" and not node.attrs.get("reverse")
        found.offset[who] = _plus(found, who, -number if negative else number)
    step = factor_at(node, position, holder.values)
    if step is not None and step.value is not None:
        found.factor[who] *= step.value
    source = node.inputs[position]
    front.push(source, who, broadcast(at, node.shape, source.shape))


def _fill(
    node: Node, who: _Places, at: _Places, found: Entries, front: _Front, holder: Holder
) -> None:
    if node.op == "where" and len(node.inputs) < 3:
        raise UnresolvedError("the scores are chosen from a number, on an unknown side")
    mask_at = 1 if node.op == "masked_fill" else 0
    hit = _value(node, mask_at, at, holder) != 0
    kept, filled = (0, 2) if node.op == "masked_fill" else (2, 1)
    for position, chosen in ((kept, ~hit), (filled, hit)):
        mine, places = who[chosen], at[chosen]
        given = len(node.inputs) > position
        if given and node.inputs[position].on_scores:
            source = node.inputs[position]
            front.push(source, mine, broadcast(places, node.shape, source.shape))
            continue
        if given:
            value: Floats | float = _value(node, position, places, holder)
        else:
            value = float(node.attrs.get("scalar", math.nan))
        found.offset[mine] = _plus(found, mine, value)
        found.factor[mine] = 0.0


def _inside(node: Node, who: _Places, at: _Places, found: Entries, holder: Holder) -> None:
    """What the operation of the product adds and multiplies itself."""
    beta = float(node.attrs.get("beta", 1.0))
    if len(node.inputs) > 2 and beta != 0.0:
        found.offset[who] = _plus(found, who, beta * _value(node, 2, at, holder))
    found.factor[who] *= float(node.attrs.get("alpha", 1.0))
    if node.op == "mean":
        found.factor[who] /= node.inputs[0].shape[-1]


def _value(node: Node, position: int, at: _Places, holder: Holder) -> Floats:
    """The entries of an input that holds no scores, at places of the result."""
    source = node.inputs[position]
    values = _literal(source, broadcast(at, node.shape, source.shape), holder)
    if np.isnan(values).any() and holder.values.tensor(source) is None:
        raise UnresolvedError("a mask or bias was no longer held")
    return values


def _literal(node: Node, at: _Places, holder: Holder) -> Floats:
    """Entries of a tensor that holds no scores; NaN where they are not known."""
    number = node.value if node.value is not None else node.attrs.get("fill")
    if number is not None:
        return np.full(at.size, float(number))
    array = holder.values.tensor(node)
    if array is None:
        return np.full(at.size, math.nan)
    shape = tuple(array.shape)
    where = np.unravel_index(at, shape) if shape else ()
    return np.asarray(picked(array, [np.asarray(i) for i in where]), dtype=np.float64)
