"""A tensor of a running graph, an operation on some, and what is kept of them for later."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rootdk.frontends._graph.node import Node

__all__ = ["Array", "Operation", "Redo", "Tensor"]

Array = npt.NDArray[Any]

Redo = Callable[[Sequence[Array]], Array]
"""Makes a tensor again from other values of the inputs of its node."""


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """An array and the node that stands for it."""

    array: Array
    node: Node


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One ONNX operation that has run: ``inputs`` is None where an optional one is absent.

    ``outputs`` are arrays, lists of arrays, or None where the node names none; ``again`` runs
    it on other inputs, by position.
    """

    kind: str
    domain: str
    version: int
    attributes: Mapping[str, Any]
    inputs: Sequence[Tensor | None]
    outputs: Sequence[Any]
    again: Callable[[Mapping[int, Array]], Sequence[Any]] = field(repr=False)

    def tensors(self) -> list[Tensor]:
        """The inputs that are there."""
        return [source for source in self.inputs if source is not None]

    def input(self, position: int) -> Tensor | None:
        """An input, None where it is absent."""
        return self.inputs[position] if position < len(self.inputs) else None

    def numbers(self, position: int, attribute: str) -> list[int] | None:
        """Whole numbers that an input holds, or in older versions an attribute; None if neither."""
        source = self.input(position)
        if source is not None:
            return [int(n) for n in np.atleast_1d(source.array).tolist()]
        given = self.attributes.get(attribute)
        return None if given is None else [int(n) for n in given]
