"""Records canonical nodes for the operations of a graph, with their arrays at hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rootdk.frontends._graph.node import LAYOUT, SCORES, Kind, Node
from rootdk.frontends._graph.tags import kind_of
from rootdk.frontends._onnx.places import Place
from rootdk.frontends._onnx.tensors import Array, Redo, Tensor
from rootdk.frontends._sites.keeping import Keeper
from rootdk.frontends._sites.numbers import is_float
from rootdk.frontends._sites.recording import SIDE_ENTRIES, Recording
from rootdk.frontends._sites.replay import LostError, ValueOf

__all__ = ["Recorder"]


class Recorder(Recording):
    """One node a tensor; ``at`` says which operation of the graph is being recorded."""

    prefix = "onnx."
    retainer: Keeper

    def __init__(self, budget: int) -> None:
        super().__init__()
        self.retainer = Keeper(budget)
        self._place = Place()

    def at(self, place: Place) -> None:
        """Say where the nodes that follow come from."""
        self._place = place
        self.module_path = place.module_path

    def leaf(self, array: Array, op: str, kind: Kind, name: str) -> Tensor:
        """Record a tensor that exists before anything runs."""
        node = self._node(op, (), array, kind, {"name": name})
        if array.size <= SIDE_ENTRIES or kind == Kind.PARAMETER:
            node.attrs["tensor"] = array
        if array.size == 1 and op != "input":
            node.value = _number(array)
        return Tensor(array, node)

    def emit(
        self, op: str, sources: Sequence[Tensor], array: Array, redo: Redo | None, **attrs: Any
    ) -> Tensor:
        """Record one canonical operation that made ``array`` of ``sources``."""
        inputs = tuple(source.node for source in sources)
        kind = kind_of(op, inputs)
        node = self._node(op, inputs, array, kind, dict(attrs))
        if kind <= Kind.PARAMETER and array.size == 1 and op != "random":
            node.value = _number(array)
        if redo is not None:
            node.attrs["redo"] = redo
        arrays = [source.array for source in sources]
        self.describe(node, arrays, array)
        made = op not in LAYOUT and node.on_scores != SCORES
        if made and kind >= Kind.PARAMETER and is_float(array) and array.ndim:
            self.retainer.keep(node, array)
        if op != "fused":
            self.tell(node, str(attrs.get("name", op)), arrays, array)
        if op == "opaque" and kind >= Kind.PARAMETER and is_float(array):
            self.note_unhandled(str(attrs.get("name", op)))
        return Tensor(array, node)

    def again(self, node: Node, value_of: ValueOf) -> Array:
        """Run an operation again; see ``Holder``."""
        redo: Redo | None = node.attrs.get("redo")
        if redo is None:
            held = self.values.tensor(node)
            if held is None:
                raise LostError(f"{node.op} cannot be run again")
            array: Array = held
            return array
        return redo([value_of(source) for source in node.inputs])

    def _node(
        self,
        op: str,
        inputs: tuple[Node, ...],
        array: Array,
        kind: Kind,
        attrs: dict[str, Any],
    ) -> Node:
        node = self.new_node(
            op,
            inputs,
            shape=tuple(array.shape),
            dtype=array.dtype.name,
            kind=kind,
            attrs=attrs,
        )
        node.source = self._place.source
        return node


def _number(array: Array) -> float | None:
    if array.dtype.kind not in "fiub" and array.dtype.name != "bfloat16":
        return None
    return float(array.reshape(-1)[0])
