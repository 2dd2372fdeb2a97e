"""Where weights meet the values: what a softmax turns out to be, and what is no softmax at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rootdk._lib.arrays import Array
from rootdk.frontends._graph.beside_weights import constant_beside, value_factors
from rootdk.frontends._graph.node import LAYOUT, Kind, Node
from rootdk.frontends._graph.tags import behind_layout
from rootdk.frontends._graph.trail import FactorStep, UnresolvedError
from rootdk.frontends._graph.weights import walk_weights
from rootdk.frontends._sites.arrange import beside_groups, leading_labels
from rootdk.frontends._sites.elsewhere import (
    NO_SOFTMAX,
    SEGMENTS,
    UNDIVIDED,
    bare_scores,
    place_of,
    softmax_elsewhere,
    sums_segments,
)
from rootdk.frontends._sites.measuring import largest_raw_score, row_sums
from rootdk.frontends._sites.numbers import turned
from rootdk.frontends._sites.pending import Pending
from rootdk.frontends._sites.recognise import contracted_labels
from rootdk.frontends._sites.sharing import shared_by
from rootdk.records import Unhandled

if TYPE_CHECKING:
    from rootdk.frontends._sites.recording import Recording

__all__ = ["MeetsValues"]


class MeetsValues:
    """The part of the listener that is told of products with the values."""

    recorder: Recording
    pending: dict[int, Pending]
    fused: list[Pending]
    # What mixes values by other weights than a softmax of query-key products, and where.
    others: Counter[tuple[str, str, str]]
    _told: set[int]
    _undivided: dict[int, str]
    # Outputs that were multiplied by a constant, by the number of the product.
    _scaled: dict[int, Pending]

    def on_weights_product(self, node: Node, tensors: Sequence[Array]) -> None:
        """The weights of one or more softmaxes meet the values."""
        operands = node.inputs[0].inputs if node.op == "sum" else node.inputs[:2]
        for position, operand in enumerate(operands[:2]):
            for index in operand.weights_of:
                pending = self.pending.get(index)
                if pending is None and node.op == "matmul":
                    self._list_softmax(node, operand, index)
                if pending is None or pending.met_values:
                    continue
                self._meet(pending, node, operand, position, operands)
                self._measure(pending, node, position, tensors)

    def on_output_factor(self, node: Node) -> None:
        """A plain factor right after the product with the values."""
        source, value = constant_beside(node)
        for _ in range(6 if value is not None else 0):
            owner = source.attrs.get("output_of")
            if owner is not None:
                pending = self.pending.get(owner) or next(
                    (p for p in self.fused if p.node.index == owner), None
                )
                if pending is not None and "after_output" not in pending.observed:
                    step = FactorStep(node, value, origin="a factor on the attention output")
                    pending.observed["after_output"] = step
                    self._scaled[node.index] = pending
                return
            if source.op not in LAYOUT or not source.inputs:
                return
            source = source.inputs[0]

    def on_sum(self, node: Node) -> None:
        """A factor on an output that is added to something as it is says how much it counts."""
        for source in node.inputs if self._scaled else ():
            pending = self._scaled.pop(behind_layout(source).index, None)
            if pending is not None:
                pending.observed["output_added"] = True

    def _meet(
        self, pending: Pending, node: Node, operand: Node, position: int, operands: Sequence[Node]
    ) -> None:
        try:
            trail = walk_weights(operand, pending.node, pending.axes, self.recorder.values)
        except (LookupError, RecursionError):
            return
        pending.met_values = True
        pending.weights = trail
        if trail.cleaned:
            pending.observed["empty_rows_nan"] = 0
        pending.dropout = trail.dropout
        pending.dropout_node = trail.dropout_node
        node.attrs["output_of"] = pending.node.index
        if len(operands) > 1:
            other = operands[1 - position]
            pending.value_factors = value_factors(other, node.scope)
            pending.value_dim = (
                other.shape[-1]
                if node.op != "matmul" or position == 0
                else (other.shape[-2] if len(other.shape) > 1 else None)
            )
        contracted = contracted_labels(node, operand, position, trail.axes)
        elsewhere = contracted & {"Q", "K"} - {pending.axis_label}
        open_axis = pending.axis == "keys" and not trail.remade
        if open_axis and pending.axis_label not in contracted and elsewhere:
            pending.axis = "queries"

    def _measure(
        self, pending: Pending, node: Node, position: int, tensors: Sequence[Array]
    ) -> None:
        self._sums(pending, node, position, tensors)
        measure, pending.measure = pending.measure, None
        if measure is None or not pending.met_values:
            return
        value: Array | None = None
        if node.op == "matmul" and len(tensors) > 1:
            side = tensors[1 - position]
            value = _value_of(pending, side if position == 0 else turned(side))
        if pending.kv_map is not None and value is not None:
            pending.value_map = shared_by(value, len(set(pending.kv_map)))
        pending.summary = measure(value)
        if pending.summary is not None and pending.line is not None:
            largest = largest_raw_score(pending.line, pending.summary)
            pending.observed["largest_raw_score"] = largest

    @staticmethod
    def _sums(pending: Pending, node: Node, position: int, tensors: Sequence[Array]) -> None:
        """Row sums where the weights meet the values, if something happened on the way."""
        trail = pending.weights
        if trail is None or trail.dropout or node.op != "matmul" or trail.softmax is not None:
            return
        if trail.mixed or not (trail.factors or trail.mask or trail.renormalised):
            return
        pending.observed.update(row_sums(tensors[position], -1 if position == 0 else -2))

    # -- what is no softmax over query-key products --------------------------------------------

    def _list_softmax(self, node: Node, operand: Node, index: int) -> None:
        if index in self._told:
            return
        self._told.add(index)
        why = softmax_elsewhere(operand, index)
        if why is not None:
            self.others["softmax", place_of(node), why] += 1

    def on_other_division(self, node: Node) -> None:
        """An exponential that is no score may be divided by sums over segments."""
        if len(node.inputs) > 1 and sums_segments(node.inputs[1], behind_layout(node.inputs[0])):
            self.others["softmax", place_of(node), SEGMENTS] += 1

    def list_bare(self, node: Node) -> None:
        """Scores that met the values without a softmax; a projection of them is no such thing."""
        if any(source.kind != Kind.ACTIVATION for source in node.inputs[:2]):
            return
        why = bare_scores(node)
        if why is not None:
            self.others[NO_SOFTMAX, place_of(node), why] += 1

    def elsewhere(self) -> tuple[Unhandled, ...]:
        """What mixes values by other weights than a softmax of query-key products."""
        together: dict[tuple[str, str], tuple[int, str]] = {}
        undivided = Counter((NO_SOFTMAX, where, UNDIVIDED) for where in self._undivided.values())
        for (name, where, why), count in (self.others + undivided).items():
            seen, first = together.get((name, why), (0, where))
            together[name, why] = (seen + count, first)
        return tuple(
            Unhandled(operation=name, count=count, where=where, why=why, kind="attention")
            for (name, why), (count, where) in sorted(together.items())
        )


def _value_of(pending: Pending, side: Array) -> Array | None:
    """The values, (batch, heads, keys, value_dim), from the operand beside the weights."""
    arrangement, line, trail = pending.arrangement, pending.line, pending.weights
    if arrangement is None or line is None:
        return None
    beside = beside_groups(side, line.product)
    ways: list[Callable[[], Array]] = [
        lambda: arrangement.operand(beside, leading_labels(line.product, len(beside.shape)))
    ]
    if trail is not None and trail.axes is not None:
        dims = trail.axes.dims[:-2]
        ways.append(lambda: arrangement.along(side, dims))
    for way in ways:
        try:
            value = way()
        except (UnresolvedError, RuntimeError, ValueError, KeyError):
            continue
        if value.shape[-2] == pending.shapes["keys"]:
            return value
    return None
