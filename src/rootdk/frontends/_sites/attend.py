"""From a softmax, and later its product with the values, to one attention site."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from rootdk._lib.arrays import Array
from rootdk.frontends._graph.line import ScoreLine, ScoreStep
from rootdk.frontends._graph.node import Kind, Node
from rootdk.frontends._graph.operand import OperandWalk
from rootdk.frontends._graph.origins import attends_over, over_both
from rootdk.frontends._graph.regroup import regrouped
from rootdk.frontends._graph.scores import walk_scores
from rootdk.frontends._graph.trail import FactorStep, NotAttentionError, UnresolvedError
from rootdk.frontends._sites.arrange import (
    arrange,
    heads_from_path,
    leading_labels,
    operand_tensors,
)
from rootdk.frontends._sites.by_hand import ByHand
from rootdk.frontends._sites.calls import Calls
from rootdk.frontends._sites.diagonal import alignment, diagonal_of, unseen_keys
from rootdk.frontends._sites.joined import JoinsPieces
from rootdk.frontends._sites.masks import Masks
from rootdk.frontends._sites.measuring import (
    measure_site,
    observe,
)
from rootdk.frontends._sites.meeting import MeetsValues
from rootdk.frontends._sites.padding import Taking
from rootdk.frontends._sites.pending import (
    Pending,
    settle_vectors,
    width_of_heads,
)
from rootdk.frontends._sites.recognise import (
    drop_cap,
    leading_axis,
    part_of_rows,
    shapes_of,
)
from rootdk.frontends._sites.recompute import (
    check_weights,
    dot_products,
    draw_seeing,
)
from rootdk.frontends._sites.recording import Recording
from rootdk.frontends._sites.replay import require_operand
from rootdk.frontends._sites.sharing import POSITIONS, heads_of_keys, kv_heads, repeated_at
from rootdk.frontends._sites.spanning import spanned
from rootdk.frontends._sites.tapping import kept_weights
from rootdk.stats import Summary

__all__ = ["Attending"]

# Softmaxes that may still meet values; older ones are not measured any more.
_WAITING = 6


class Attending(MeetsValues, ByHand, Calls, JoinsPieces):
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
        self._undivided: dict[int, str] = {}
        self.others: Counter[tuple[str, str, str]] = Counter()
        self._told: set[int] = set()
        self._scaled: dict[int, Pending] = {}

    # -- the moments ---------------------------------------------------------------------------

    def on_softmax(self, node: Node, source: Array, weights: Array) -> None:
        """A softmax operator over scores."""
        facts = {"exponentials": "kernel", "dtype": node.inputs[0].dtype}
        spelling = node.attrs.get("spelling", "softmax")
        self._begin(node, node.inputs[0], node.attrs["dim"], spelling, facts, weights, source)

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
        finally:
            pending.shapes = pending.shapes or shapes_of(node)
            self.recorder.release()

    def _resolve(
        self,
        pending: Pending,
        line: ScoreLine,
        dim: int,
        weights: Array,
        argument: Array | None,
    ) -> None:
        if line.joined is not None:
            self._resolve_joined(pending, line, line.joined, dim, weights, argument)
            return
        product, axes = line.product, line.axes
        assert axes is not None
        pending.axes = axes
        labels = {s for s in axes.labels_of(dim) if not s.startswith("new")}
        label = next(iter(labels & {"K", "Q"}), None)
        if label is None:
            # One key has no label; nothing then tells the axis from the keys, if no other has it.
            label = "K"
            pending.axis = leading_axis(axes, dim) if labels or axes.dims_with("K") else "keys"
        elif label == "Q" and (part := part_of_rows(axes, dim)) is not None:
            label, pending.axis = "K", part
        pending.axis_label = label
        query_operand, _key_operand = self._sides(product, label)
        heads = heads_from_path(query_operand, product.rows.shape[-1])
        line = pending.line = regrouped(line, label, heads)
        product, axes = line.product, line.axes
        assert axes is not None
        pending.axes = axes
        rows, columns = operand_tensors(product)
        self._trails(pending, label)
        pending.arrangement = arrange(product, axes, heads, label, dim)
        query = rows if label == "K" else columns
        if pending.axis == "keys":
            pending.axis = spanned(product, axes, dim, pending.arrangement, query) or "keys"
        self._shapes(pending, rows, columns, label)
        self._collect_factors(pending)
        masks = self._collect_addends(pending)
        queries, keys = pending.shapes["queries"], pending.shapes["keys"]
        pending.diagonal = diagonal_of(masks.mask, queries, keys)
        pending.causal = alignment(pending.diagonal, queries, keys)
        key = columns if label == "K" else rows
        pending.observed["unseen_keys"] = unseen_keys(pending.diagonal, queries, key)
        scale = line.scale
        # Before the verification: what overflowed is said of a site that fails it, too.
        pending.observed.update(observe(pending, weights, argument, dim, masks, rows, columns))
        sample = draw_seeing(line, dim, self.rows, self.generator, self.recorder.values)
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
        self._share(pending, key, label)
        if self.statistics:
            pending.kept = kept_weights(pending, weights, masks)
            self._later(pending, self._measurement(pending, rows, columns, scale, masks))

    def _measurement(
        self, pending: Pending, rows: Array, columns: Array, scale: float, masks: Masks
    ) -> Callable[[Array | None], Summary | None]:
        inputs = self.projection_input(pending.query_trail)
        taking = Taking(pending, rows, columns, masks)
        if taking.some:
            pending.kept = None
        rows, columns = taking.operands(rows, columns)
        masks = taking.masks(masks)
        causal = None if taking.some else pending.causal
        if causal is not None:
            # The mask says nothing else, and half of the scores need no look then.
            masks = replace(masks, mask=None)
        return lambda value: measure_site(
            pending, rows, columns, scale, masks, taking.value(value), inputs, causal
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
        if line.product.form == "matmul":
            columns = line.product.columns
            pending.along = over_both(
                attends_over(query, pending.query_trail, transposed=query is columns),
                attends_over(key, pending.key_trail, transposed=key is columns),
            )

    def _shapes(self, pending: Pending, rows: Array, columns: Array, label: str) -> None:
        arrangement = pending.arrangement
        assert arrangement is not None
        sizes = (rows.shape[-2], columns.shape[-2])
        queries, keys = sizes if label == "K" else (sizes[1], sizes[0])
        assert pending.line is not None
        product = pending.line.product
        shared = product.regroup.count if product.regroup is not None else 1
        kv = kv_heads(self._sides(product, label)[1], arrangement.num_heads // shared)
        pending.shapes = {
            "batch": arrangement.batch,
            "num_heads": arrangement.num_heads,
            "num_kv_heads": kv,
            "queries": int(queries),
            "keys": int(keys),
            "head_dim": width_of_heads(pending, rows, columns),
        }

    def _share(self, pending: Pending, key: Array, label: str) -> None:
        """Which query heads read the same key head."""
        assert pending.arrangement is not None
        assert pending.line is not None
        product, kv = pending.line.product, pending.shapes["num_kv_heads"]
        if not 1 < kv < pending.shapes["num_heads"]:
            return
        query, source = self._sides(product, label)
        labels = leading_labels(product, len(key.shape))
        arranged = pending.arrangement.operand(key[..., :POSITIONS, :], labels)
        pending.kv_map = heads_of_keys(query, arranged, kv)
        pending.repeated = repeated_at(source, pending.shapes["num_heads"])

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
