"""Keep the latest values of a recording whose arrays never change."""

from __future__ import annotations

from collections import OrderedDict

from rootdk._lib.arrays import Array
from rootdk.frontends._graph.node import Node

__all__ = ["Keeper"]


class Keeper:
    """Keeps values for the verification, up to a number of bytes; the latest stay.

    Terminals are known only once a product is reached, so all recent candidates are held.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self._held: OrderedDict[int, Array] = OrderedDict()
        self._bytes = 0

    def keep(self, node: Node, array: Array) -> None:
        """Hold the value of ``node``."""
        size = int(array.nbytes)
        if not 0 < size <= self.budget // 2:
            return
        self._held[node.index] = array
        self._bytes += size
        while self._bytes > self.budget and self._held:
            self._bytes -= int(self._held.popitem(last=False)[1].nbytes)

    def value(self, node: Node) -> Array | None:
        """The value of ``node``; None when no longer held."""
        return self._held.get(node.index)

    def was_changed(self, node: Node) -> bool:
        """Whether a held value was changed: these arrays cannot be."""
        return False

    def clear(self) -> None:
        """Let go of everything."""
        self._held.clear()
        self._bytes = 0
