"""What a walk knows of a path: its terminals, its factors, and how it gets at numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rootdk.frontends._graph.node import Node

__all__ = ["FactorStep", "NotAttentionError", "Trail", "UnresolvedError", "Values"]


class UnresolvedError(Exception):
    """A site could not be understood; the message says why."""


class NotAttentionError(Exception):
    """The softmax is not over products of activations."""


class Values(Protocol):
    """What a walk may ask about the values of side operands."""

    def uniform(self, node: Node) -> float | None:
        """The value of a tensor whose entries are all equal; None otherwise."""
        ...

    def binary(self, node: Node) -> bool:
        """Whether every entry is 0 or 1, and both occur."""
        ...

    def rotation_gain(self, first: Node, second: Node) -> float | None:
        """√(first² + second²) where that is one number everywhere; None otherwise."""
        ...

    def modulus(self, node: Node) -> float | None:
        """The absolute value of complex entries where it is one number; None otherwise."""
        ...

    def isometry(self, node: Node) -> float | None:
        """c where the matrix is c times an orthogonal one; None otherwise."""
        ...


@dataclass(frozen=True)
class FactorStep:
    """One factor on a path: the node that applied it, its value and kind."""

    node: Node
    value: float | None
    kind: str = "constant"
    origin: str = ""


@dataclass(frozen=True)
class Trail:
    """What lies between a node and its terminals."""

    terminals: frozenset[Node] = frozenset()
    factors: tuple[FactorStep, ...] = ()
    vectors: tuple[Node, ...] = ()
    claims: frozenset[tuple[int, float]] = frozenset()
    affine: bool = False
    normalised: bool = False
    learned_gain: bool = False
    rotary: bool = False
    kind: str = "projection"
    steps: tuple[str, ...] = ()
    signs: frozenset[int] = frozenset({1})

    @property
    def skipped(self) -> frozenset[int]:
        """The nodes that the trail takes for constant factors, or for nothing at all."""
        return frozenset(index for index, _ in self.claims)

    @property
    def constant(self) -> float:
        """The product of the constant factors."""
        product = 1.0
        for step in self.factors:
            if step.kind == "constant" and step.value is not None:
                product *= step.value
        return product
