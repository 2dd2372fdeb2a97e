"""From a softmax, and later its product with the values, to one attention site."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rootdk._lib.arrays import Array
from rootdk.frontends._graph.node import LAYOUT, Kind, Node
from rootdk.frontends._graph.operand import OperandWalk
from rootdk.frontends._graph.scores import NotAttentionError, ScoreLine, ScoreStep, walk_scores
from rootdk.frontends._graph.trail import FactorStep, UnresolvedError
from rootdk.frontends._graph.weights import walk_weights
from rootdk.frontends._sites.arrange import (
    arrange,
    heads_from_path,
    leading_labels,
    operand_tensors,
)
from rootdk.frontends._sites.by_hand import ByHand
from rootdk.frontends._sites.calls import Calls
from rootdk.frontends._sites.masks import Masks, alignment
from rootdk.frontends._sites.measuring import (
    largest_raw_score,
    measure_site,
    observe,
    row_sums,
)
from rootdk.frontends._sites.numbers import turned
from rootdk.frontends._sites.pending import (
    Pending,
    kv_heads,
    settle_vectors,
    width_of_heads,
)
from rootdk.frontends._sites.recognise import (
    contracted_labels,
    drop_cap,
    leading_axis,
    shapes_of,
)
from rootdk.frontends._sites.recompute import (
    check_weights,
    dot_products,
    draw_sample,
)
from rootdk.frontends._sites.recording import Recording
from rootdk.frontends._sites.replay import require_operand
from rootdk.stats import Summary

__all__ = ["Attending"]

# Softmaxes that may still meet values; older ones are not measured any more.
_WAITING = 6


class Attending(ByHand, Calls):
    """Listens to a recording and collects sites in the order in which they ran."""

    def __init__(
        self,
        recorder: Recording,
        *,
        rows: int,
        seed: int,
        statistics: bool,
        training_of: Callable[[], bool],
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self.recorder = recorder
        self.rows = rows
        self.statistics = statistics
        self.training_of = training_of
        self.progress = progress
        self.generator = np.random.default_rng(seed)
        self.pending: dict[int, Pending] = {}
        self.fused: list[Pending] = []
        self._exponents: dict[int, tuple[float, bool]] = {}
        self._waiting: deque[Pending] = deque()
        self._late: deque[Node] = deque()

    # -- the moments ---------------------------------------------------------------------------

    def on_softmax(self, node: Node, source: Array, weights: Array) -> None:
        """A softmax operator over scores."""
        facts = {"exponentials": "kernel", "dtype": node.inputs[0].dtype}
        self._begin(node, node.inputs[0], node.attrs["dim"], "softmax", facts, weights, source)

    def on_weights_product(self, node: Node, tensors: Sequence[Array]) -> None:
        """The weights of one or more softmaxes meet the values."""
        operands = node.inputs[0].inputs if node.op == "sum" else node.inputs[:2]
        for position, operand in enumerate(operands[:2]):
            for index in operand.weights_of:
                pending = self.pending.get(index)
                if pending is None or pending.met_values:
                    continue
                self._meet(pending, node, operand, position, operands)
                self._measure(pending, node, position, tensors)

    def on_output_factor(self, node: Node) -> None:
        """A plain factor right after the product with the values."""
        source = node.inputs[0]
        for _ in range(6):
            owner = source.attrs.get("output_of")
            if owner is not None:
                pending = self.pending.get(owner) or next(
                    (p for p in self.fused if p.node.index == owner), None
                )
                if pending is not None and "after_output" not in pending.observed:
                    value = float(node.attrs["scalar"])
                    value = 1.0 / value if node.op == "div" and value else value
                    step = FactorStep(node, value, origin="a factor on the attention output")
                    pending.observed["after_output"] = step
                return
            if source.op not in LAYOUT or not source.inputs:
                return
            source = source.inputs[0]

    # -- beginning -----------------------------------------------------------------------------

    def _begin(
        self,
        node: Node,
        scores: Node,
        dim: int,
        spelling: str,
        facts: dict[str, Any],
        weights: Array,
        argument: Array | None,
        base_two: bool = False,
    ) -> None:
        pending = Pending(node, spelling, normalisation=dict(facts))
        pending.training = self.training_of()
        pending.autocast = self.recorder.autocast
        outer = [i for i in node.weights_of if i != node.index and i in self.pending]
        pending.outer = outer[0] if outer else None
        try:
            if scores.kind == Kind.UNKNOWN and not scores.on_scores:
                raise UnresolvedError("the scores were made outside the traced operations")
            line = walk_scores(scores, self.recorder.values)
        except NotAttentionError:
            return
        except UnresolvedError as reason:
            pending.unresolved = str(reason)
            pending.shapes = shapes_of(node)
            self.pending[node.index] = pending
            return
        if base_two:
            line.factors.append(FactorStep(node, math.log(2.0), origin="base 2 exponentials"))
            axes = line.axes or line.product.axes
            line.steps.append(ScoreStep("factor", node, axes, value=math.log(2.0)))
        pending.line = line
        pending.product_node = line.product.node
        pending.score_dtype = line.product.node.dtype
        self.pending[node.index] = pending
        if self.progress is not None:
            self.progress(node.module_path)
        try:
            self._resolve(pending, line, dim, weights, argument)
        except UnresolvedError as reason:
            pending.unresolved = pending.unresolved or str(reason)
            pending.shapes = pending.shapes or shapes_of(node)
        finally:
            self.recorder.release()

    def _resolve(
        self,
        pending: Pending,
        line: ScoreLine,
        dim: int,
        weights: Array,
        argument: Array | None,
    ) -> None:
        product, axes = line.product, line.axes
        assert axes is not None
        pending.axes = axes
        labels = {s for s in axes.labels_of(dim) if not s.startswith("new")}
        label = next(iter(labels & {"K", "Q"}), None)
        if label is None:
            # One key has no label; nothing then tells the axis from the keys.
            label = "K"
            pending.axis = leading_axis(axes, dim) if labels else "keys"
        pending.axis_label = label
        rows, columns = operand_tensors(product)
        self._trails(pending, label)
        head_dim = int(rows.shape[-1])
        query_operand, _key_operand = self._sides(product, label)
        heads = heads_from_path(query_operand, head_dim)
        pending.arrangement = arrange(product, axes, heads, label)
        self._shapes(pending, rows, columns, label)
        self._collect_factors(pending)
        masks = self._collect_addends(pending)
        pending.causal = alignment(masks, pending.shapes["queries"], pending.shapes["keys"])
        sample = draw_sample(axes, dim, self.rows, self.generator)
        scale = line.scale
        # Before the verification: what overflowed is said of a site that fails it, too.
        pending.observed.update(observe(pending, weights, argument, dim, masks, rows, columns))
        if pending.score_dtype == "float16":
            sampled = np.abs(dot_products(product, sample)[0])
            finite = sampled[np.isfinite(sampled)]
            if finite.size:
                inside = float(product.node.attrs.get("alpha", 1.0))
                pending.observed["largest_raw_score"] = float(finite.max()) * abs(inside)
        pending.mismatch = check_weights(
            line,
            sample,
            scale,
            weights,
            argument,
            pending.score_dtype,
            self.recorder.values,
            bool(pending.normalisation.get("sink")),
        )
        if not pending.mismatch.within:
            raise UnresolvedError(
                "recomputed weights differ from the observed ones by "
                f"{pending.mismatch.difference:.3g} (the dtype allows "
                f"{pending.mismatch.bound:.3g})"
            )
        self._check_operands(pending)
        if self.statistics:
            inputs = self.projection_input(pending.query_trail)
            self._later(
                pending,
                lambda value: measure_site(pending, rows, columns, scale, masks, value, inputs),
            )

    def _later(self, pending: Pending, measure: Callable[[Array | None], Summary | None]) -> None:
        """Measure when the weights meet the values: a softmax that never does is no attention."""
        pending.measure = measure
        self._waiting.append(pending)
        while len(self._waiting) > _WAITING:
            self._waiting.popleft().measure = None

    def _sides(self, product: Any, label: str) -> tuple[Node, Node]:
        pair = (product.rows, product.columns)
        return pair if label == "K" else (pair[1], pair[0])

    def _trails(self, pending: Pending, label: str) -> None:
        line = pending.line
        assert line is not None
        walk = OperandWalk(self.recorder.values, line.product.node.scope)
        query, key = self._sides(line.product, label)
        pending.query_trail = walk.operand(query)
        pending.key_trail = walk.operand(key)
        for side, trail in (("query", pending.query_trail), ("key", pending.key_trail)):
            settle_vectors(trail, side)

    def _shapes(self, pending: Pending, rows: Array, columns: Array, label: str) -> None:
        arrangement = pending.arrangement
        assert arrangement is not None
        sizes = (rows.shape[-2], columns.shape[-2])
        queries, keys = sizes if label == "K" else (sizes[1], sizes[0])
        key_side = self._sides(pending.line.product, label)[1] if pending.line else None
        pending.shapes = {
            "batch": arrangement.batch,
            "num_heads": arrangement.num_heads,
            "num_kv_heads": kv_heads(key_side, arrangement.num_heads),
            "queries": int(queries),
            "keys": int(keys),
            "head_dim": width_of_heads(pending, rows, columns),
        }

    def _collect_factors(self, pending: Pending) -> None:
        line = pending.line
        assert line is not None
        for trail, place in ((pending.query_trail, "query"), (pending.key_trail, "key")):
            assert trail is not None
            pending.factors.extend((step, place) for step in trail.factors)
            for vector in trail.vectors:
                step = FactorStep(vector, None, "position-dependent", "a factor per position")
                pending.factors.append((step, place))
        pending.factors.extend((step, "scores") for step in line.factors)
        if line.softcap is not None:
            drop_cap(pending, line)

    def _collect_addends(self, pending: Pending) -> Masks:
        """Masks and biases as records, and as tensors that the engines take."""
        line, arrangement = pending.line, pending.arrangement
        assert line is not None
        assert arrangement is not None
        return Masks.of(line, arrangement, self.recorder.values, pending.addends)

    def _check_operands(self, pending: Pending) -> None:
        line = pending.line
        assert line is not None
        product = line.product
        query, _ = self._sides(product, pending.axis_label)
        held = product.node.attrs["operands"]
        for node, tensor in zip((product.rows, product.columns), held, strict=True):
            trail = pending.query_trail if node is query else pending.key_trail
            assert trail is not None
            require_operand(node, tensor, trail, self.recorder, product.node.scope)
        pending.operands = "equal"

    # -- meeting the values --------------------------------------------------------------------

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
            pending.value_dim = (
                other.shape[-1]
                if node.op != "matmul" or position == 0
                else (other.shape[-2] if len(other.shape) > 1 else None)
            )
        contracted = contracted_labels(node, operand, position, trail.axes)
        elsewhere = contracted & {"Q", "K"} - {pending.axis_label}
        if pending.axis == "keys" and pending.axis_label not in contracted and elsewhere:
            pending.axis = "queries"

    def _measure(
        self, pending: Pending, node: Node, position: int, tensors: Sequence[Array]
    ) -> None:
        self._sums(pending, node, position, tensors)
        measure, pending.measure = pending.measure, None
        if measure is None or not pending.met_values:
            return
        value: Array | None = None
        if node.op == "matmul" and len(tensors) > 1 and pending.arrangement is not None:
            side = tensors[1 - position]
            side = side if position == 0 else turned(side)
            line = pending.line
            try:
                assert line is not None
                labels = leading_labels(line.product, len(side.shape))
                value = pending.arrangement.operand(side, labels)
            except (UnresolvedError, RuntimeError, ValueError, KeyError):
                value = None
            if value is not None and value.shape[-2] != pending.shapes["keys"]:
                value = None
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

    def of(self, node: Node) -> Pending | None:
        """What was begun at a node, if anything."""
        if node.index in self.pending:
            return self.pending[node.index]
        return next((p for p in self.fused if p.node is node), None)

    # -- records -------------------------------------------------------------------------------

    def finished(self) -> list[Pending]:
        """The attention calls, in the order in which they ran."""
        found = [p for p in self.pending.values() if p.met_values]
        indexes = {p.node.index for p in found}
        kept = [p for p in found if p.outer is None or p.outer not in indexes]
        return sorted([*kept, *self.fused], key=lambda p: p.node.index)
