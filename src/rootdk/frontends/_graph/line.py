"""What lies between a query-key product and a softmax, as one straight line of steps."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from rootdk.frontends._graph.axes import Axes
from rootdk.frontends._graph.node import Node
from rootdk.frontends._graph.pieces import Joined
from rootdk.frontends._graph.product import Product
from rootdk.frontends._graph.trail import FactorStep

__all__ = ["ScoreLine", "ScoreStep"]

StepKind = Literal["factor", "multiply", "add", "fill", "softcap", "clamp", "extra"]


@dataclass(frozen=True)
class ScoreStep:
    """One step from the product towards the softmax, and the axes of the tensor there."""

    kind: StepKind
    node: Node
    axes: Axes
    value: float | None = None
    other: Node | None = None
    sign: float = 1.0
    low: float | None = None
    keep_when: bool = False


@dataclass
class ScoreLine:
    """All that lies between the product and the softmax.

    Where the scores are ``joined`` of pieces, the line begins where they are, ``product`` is that
    of the first piece, and its factors are among the line's.
    """

    product: Product
    joined: Joined | None = None
    steps: list[ScoreStep] = field(default_factory=list)
    factors: list[FactorStep] = field(default_factory=list)
    axes: Axes | None = None
    softcap: float | None = None
    bounded_by: str | None = None
    widths: tuple[int, ...] = ()
    shifted: bool = False

    @property
    def scale(self) -> float:
        """The product of the constant factors between the product and the softmax."""
        return math.prod(
            f.value for f in self.factors if f.kind == "constant" and f.value is not None
        )

    @property
    def products(self) -> tuple[Node, ...]:
        """The nodes of all products that the scores are made of."""
        pieces = self.joined.pieces if self.joined is not None else ()
        return tuple(piece.product.node for piece in pieces) or (self.product.node,)

    def factor_after(self, position: int) -> float:
        """The product of the constant factors that follow a step."""
        later = self.steps[position + 1 :]
        return math.prod(s.value for s in later if s.kind == "factor" and s.value is not None)
