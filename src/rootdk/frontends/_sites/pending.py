"""A softmax over scores, or a fused call, while it is being understood."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from rootdk._lib.arrays import Array, namespace, to_numpy
from rootdk.frontends._graph.axes import Axes
from rootdk.frontends._graph.line import ScoreLine
from rootdk.frontends._graph.node import Kind, Node
from rootdk.frontends._graph.origins import Along
from rootdk.frontends._graph.trail import FactorStep, Trail, UnresolvedError
from rootdk.frontends._graph.weights import WeightsTrail
from rootdk.frontends._sites.arrange import Arrangement
from rootdk.frontends._sites.diagonal import Diagonal
from rootdk.frontends._sites.numbers import count
from rootdk.frontends._sites.recompute import Mismatch
from rootdk.frontends._tap import Kept
from rootdk.records import Addend
from rootdk.records.site import Axis
from rootdk.stats import Summary

__all__ = [
    "PADS",
    "Pending",
    "settle_vectors",
    "width_of_heads",
]

PADS = frozenset({"constant_pad_nd", "pad", "cat"})


@dataclass
class Pending:
    """A softmax over scores (or a fused call): what is known of it so far."""

    node: Node
    spelling: str
    line: ScoreLine | None = None
    query_trail: Trail | None = None
    key_trail: Trail | None = None
    arrangement: Arrangement | None = None
    shapes: dict[str, int] = field(default_factory=dict)
    factors: list[tuple[FactorStep, str]] = field(default_factory=list)
    addends: list[Addend] = field(default_factory=list)
    normalisation: dict[str, Any] = field(default_factory=dict)
    observed: dict[str, Any] = field(default_factory=dict)
    summary: Summary | None = None
    mismatch: Mismatch | None = None
    operands: Literal["equal", "isometric", "unchecked"] = "unchecked"
    unresolved: str | None = None
    weights: WeightsTrail | None = None
    met_values: bool = False
    axis: Axis = "keys"
    causal: Literal["top_left", "bottom_right"] | None = None
    diagonal: Diagonal | None = None
    along: Along = "positions"
    dropout: float = 0.0
    dropout_node: Node | None = None
    training: bool = False
    autocast: str | None = None
    score_dtype: str = "float32"
    axis_label: str = "K"
    axes: Axes | None = None
    product_node: Node | None = None
    value_dim: int | None = None
    outer: int | None = None
    hidden: int | None = None
    place: Node | None = None
    measure: Callable[[Array | None], Summary | None] | None = None

    cap: float | None = None
    kept: Kept | None = None
    # For each query head, the key and the value head that it reads; and where heads are repeated.
    kv_map: tuple[int, ...] | None = None
    value_map: tuple[int, ...] | None = None
    repeated: Node | None = None
    value_factors: tuple[FactorStep, ...] = ()

    @property
    def softcap(self) -> float | None:
        return self.line.softcap if self.line is not None else self.cap


def settle_vectors(trail: Trail, side: str) -> None:
    """A vector of constants left on a path: per position it is allowed, per channel it is not."""
    for node in trail.vectors:
        beside = [s for s in node.inputs if s.kind == Kind.UNKNOWN]
        if any(s.shape and s.shape[-1] != 1 for s in beside):
            raise UnresolvedError(
                f"the {side} is multiplied by a tensor of shape {list(beside[0].shape)} that was "
                "made outside the traced operations (a NumPy round trip, for example)"
            )
        shapes = [s.shape for s in node.inputs if s.kind <= Kind.INDEX or s.kind == Kind.UNKNOWN]
        if any(shape and shape[-1] != 1 for shape in shapes):
            raise UnresolvedError(f"the {side} is multiplied by constants that differ by channel")


def unpadded_width(array: Array) -> int:
    """How many channels are left when trailing ones that are zero everywhere are dropped."""
    if count(array) and bool(namespace(array).any(array[..., -1] != 0)):
        return int(array.shape[-1])
    flat = array.reshape((-1, array.shape[-1]))
    if not flat.shape[0]:
        return 0
    used = np.flatnonzero(to_numpy(namespace(flat).any(flat != 0, axis=0)))
    return int(used[-1]) + 1 if used.size else 0


def width_of_heads(pending: Pending, rows: Array, columns: Array) -> int:
    """The width of the product, without channels that were padded with zeros."""
    width = int(rows.shape[-1])
    trails = (pending.query_trail, pending.key_trail)
    if any(t is not None and PADS & set(t.steps) for t in trails):
        used = min(unpadded_width(rows), unpadded_width(columns))
        return used or width
    return width
