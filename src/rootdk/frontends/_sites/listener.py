"""Who is told of the moments that matter, while the tensors are alive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from rootdk._lib.arrays import Array
from rootdk.frontends._graph.node import Node

__all__ = ["Listener"]


class Listener(Protocol):
    """Who is told of the moments that matter."""

    def on_softmax(self, node: Node, source: Array, weights: Array) -> None:
        """A softmax over scores was computed."""
        ...

    def on_exponential(self, node: Node, argument: Array) -> None:
        """An exponential of scores was computed."""
        ...

    def on_log_softmax(self, node: Node, log_softmax: Node, weights: Array) -> None:
        """The exponential of a log-softmax was computed."""
        ...

    def on_log_weights(
        self, node: Node, log_softmax: Node | None, tensors: Sequence[Array]
    ) -> None:
        """A log-softmax of scores was multiplied with the values."""
        ...

    def on_unnormalised(self, node: Node, tensors: Sequence[Array]) -> None:
        """Something made of scores, but no softmax of them, was multiplied with a matrix."""
        ...

    def on_division(self, node: Node, result: Array) -> None:
        """A quotient of exponentials of scores was computed."""
        ...

    def on_other_division(self, node: Node) -> None:
        """An exponential of something else was divided."""
        ...

    def on_weights_product(self, node: Node, tensors: Sequence[Array]) -> None:
        """Weights were multiplied with something and summed over an axis."""
        ...

    def on_sum(self, node: Node) -> None:
        """A sum or difference of two tensors."""
        ...

    def on_output_factor(self, node: Node) -> None:
        """An attention output was multiplied by a plain number."""
        ...

    def on_fused(
        self, name: str, node: Node, args: Sequence[Any], kwargs: dict[str, Any], out: Any
    ) -> bool:
        """A fused operator ran; return whether it was understood."""
        ...
