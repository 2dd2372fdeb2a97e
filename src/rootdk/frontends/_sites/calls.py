"""One fused attention call, understood: verified, and measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rootdk._lib.arrays import Array, dtype_name, namespace
from rootdk.attention.masks import Causal
from rootdk.frontends._graph.beside_weights import value_factors
from rootdk.frontends._graph.node import LAYOUT, Kind, Node
from rootdk.frontends._graph.operand import OperandWalk
from rootdk.frontends._graph.origins import attends_over, over_both
from rootdk.frontends._graph.trail import FactorStep, Trail, UnresolvedError
from rootdk.frontends._sites.call import Call, Rows
from rootdk.frontends._sites.diagonal import Diagonal, alignment, diagonal_of, unseen_keys
from rootdk.frontends._sites.masks import hidden_by, meant_as_mask
from rootdk.frontends._sites.measuring import measure_call
from rootdk.frontends._sites.numbers import chosen, eps_of, is_float, lifted, not_finite, picked
from rootdk.frontends._sites.pending import Pending, settle_vectors, width_of_heads
from rootdk.frontends._sites.recompute import NOTHING_SEEN, Mismatch
from rootdk.frontends._sites.recording import Recording
from rootdk.frontends._sites.replay import require_operand
from rootdk.frontends._sites.sharing import heads_of_keys, kv_heads, repeated_at, shared_by
from rootdk.frontends._sites.tapping import kept_output
from rootdk.records import Addend

__all__ = ["Calls", "four"]

_HEADS = 4


class Calls:
    """The part of the listener that deals with fused calls, once their arguments are read."""

    recorder: Recording
    rows: int
    statistics: bool
    generator: np.random.Generator
    fused: list[Pending]
    training_of: Callable[[], bool]
    progress: Callable[[str], None] | None

    def on_fused(
        self, name: str, node: Node, args: Sequence[Any], kwargs: dict[str, Any], out: Any
    ) -> bool:
        """Understand one fused call; return whether it could be."""
        return False

    def projection_input(self, trail: Trail | None) -> Array | None:
        """What entered the projection at the end of a trail, if it is still held."""
        if trail is None or len(trail.terminals) != 1:
            return None
        (terminal,) = trail.terminals
        for _ in range(8):
            if terminal.op in {"matmul", "linear", "conv"}:
                break
            if not terminal.inputs:
                return None
            terminal = terminal.inputs[0]
        else:
            return None
        source = max(terminal.inputs[:2], key=lambda n: n.kind)
        width = source.shape[-1] if source.shape else 0
        while source.op in LAYOUT and len(source.inputs) == 1:
            source = source.inputs[0]
        held = self.recorder.retainer.value(source)
        if held is None:
            held = self.recorder.values.tensor(source)
        if held is None or len(held.shape) < 2 or not is_float(held):
            return None
        return held if held.shape[-1] == width else None

    def mask_call(self, call: Call, mask: Array, node: Node, source: Node | None) -> None:
        """Give a call its mask: booleans that say what is visible, or numbers to add."""
        mask = lifted(mask, 4)
        if dtype_name(mask) == "bool":
            call.visible = mask
            call.fills.append(Addend(kind="mask", fill=-math.inf, source=node.source))
            return
        failed = meant_as_mask(source, mask)
        if failed is not None:
            fill, call.meant = failed
            call.bias = mask
            call.fills.append(Addend(kind="mask", fill=fill, source=node.source))
            return
        low, hidden = hidden_by(mask)
        rest = mask if hidden is None else chosen(hidden, 0.0, mask)
        if hidden is not None:
            call.visible = ~hidden
            call.fills.append(Addend(kind="mask", fill=low, source=node.source))
        if bool(namespace(rest).any(rest != 0)):
            learned = source is not None and source.kind >= Kind.PARAMETER
            call.bias = rest
            call.learned_bias = learned
            call.fills.append(Addend(kind="bias", learned=learned, source=node.source))

    def begin_call(self, node: Node, spelling: str, call: Call, dropout: float) -> Pending:
        pending = Pending(node, spelling)
        pending.met_values = True
        pending.autocast = self.recorder.autocast
        pending.training = self.training_of()
        pending.score_dtype = dtype_name(call.query)
        pending.normalisation = {"exponentials": "kernel", "dtype": "float32"}
        pending.dropout = dropout
        pending.dropout_node = node if dropout else None
        queries, keys = int(call.query.shape[2]), int(call.key.shape[2])
        own = call.causal and call.visible is None
        pending.diagonal = Diagonal(0) if own else diagonal_of(call.visible, queries, keys)
        pending.causal = "top_left" if call.causal else alignment(pending.diagonal, queries, keys)
        pending.observed["unseen_keys"] = unseen_keys(pending.diagonal, queries, call.key)
        pending.product_node = node
        pending.addends = list(call.fills)
        pending.cap = call.softcap
        pending.value_dim = int(call.value.shape[-1])
        pending.shapes = {
            "batch": int(call.query.shape[0]),
            "num_heads": int(call.query.shape[1]),
            "num_kv_heads": int(call.key.shape[1]),
            "queries": queries,
            "keys": keys,
            "head_dim": int(call.query.shape[3]),
        }
        node.attrs["output_of"] = node.index
        self.fused.append(pending)
        if self.progress is not None:
            self.progress(node.module_path)
        return pending

    def finish_call(
        self,
        pending: Pending,
        call: Call,
        factor: FactorStep,
        tensors: list[Array],
        observed: Array,
    ) -> None:
        """Verify a call by ``observed``, its output (as it is without dropout), and measure it."""
        node = pending.node
        pending.observed["nonfinite_inputs"] = sum(not_finite(t) for t in tensors[:2])
        try:
            walk = OperandWalk(self.recorder.values, node.scope)
            trails = [walk.operand(source) for source in node.inputs[:2]]
            pending.query_trail, pending.key_trail = trails
            query, key = (
                attends_over(source, trail, transposed=False)
                for source, trail in zip(node.inputs[:2], trails, strict=True)
            )
            pending.along = over_both(query, key)
            pending.shapes["head_dim"] = width_of_heads(pending, tensors[0], tensors[1])
            self._gather_factors(pending, trails, factor)
            pending.shapes["num_kv_heads"] = self._kv_heads(pending, node.inputs[1])
            pending.mismatch = self._compare(call, observed)
            if not pending.mismatch.within:
                raise UnresolvedError(
                    "the recomputed output differs from the observed one by "
                    f"{pending.mismatch.difference:.3g} (the dtype allows "
                    f"{pending.mismatch.bound:.3g})"
                )
            if not pending.dropout:
                pending.kept = kept_output(observed)
            if call.meant is not None:
                pending.observed["forbidden_weight"] = self._leak(call)
            self._compare_operands(pending, node, tensors, trails)
            self._share_of_call(pending, call)
            pending.value_factors = value_factors(node.inputs[2], node.scope)
        except UnresolvedError as reason:
            pending.unresolved = str(reason)
            return
        if self.statistics:
            self._measure_call(pending, call, trails)

    def _kv_heads(self, pending: Pending, key: Node) -> int:
        here = kv_heads(key, pending.shapes["num_heads"])
        return min(here, pending.shapes["num_kv_heads"])

    @staticmethod
    def _share_of_call(pending: Pending, call: Call) -> None:
        """Which query heads read the same key and the same value head."""
        heads, kv = pending.shapes["num_heads"], pending.shapes["num_kv_heads"]
        if not 1 < kv < heads:
            return
        if call.key.shape[1] == kv and heads % kv == 0:
            # The operator shares them itself, in place: its output was recomputed so.
            pending.kv_map = pending.value_map = tuple(h // (heads // kv) for h in range(heads))
        if call.key.shape[1] != heads:
            return
        query, source = pending.node.inputs[:2]
        pending.kv_map = heads_of_keys(query, call.key, kv)
        pending.repeated = repeated_at(source, heads)
        if pending.kv_map is not None:
            pending.value_map = shared_by(call.value, kv)

    @staticmethod
    def _gather_factors(pending: Pending, trails: list[Trail], factor: FactorStep) -> None:
        for trail, place in zip(trails, ("query", "key"), strict=True):
            settle_vectors(trail, place)
            pending.factors.extend((step, place) for step in trail.factors)
            for vector in trail.vectors:
                step = FactorStep(vector, None, "position-dependent", "a factor per position")
                pending.factors.append((step, place))
        pending.factors.append((factor, "kernel"))

    def _compare(self, call: Call, observed: Array) -> Mismatch:
        batch, heads, queries = call.query.shape[:3]
        if not batch * heads * queries or not call.key.shape[2]:
            return Mismatch(0, 0.0, 0.0)
        sampled = self._seeing(call)
        each = max(self.rows // len(sampled), 1)
        worst, bound, count = 0.0, 0.0, 0
        sizes = {b: call.largest_value(b) for b in {b for b, _, _ in sampled}}
        for b, h, seeing in sampled:
            rows = self.generator.choice(seeing, size=min(each, queries))
            (expected, reach), seen = call.outputs(b, h, rows), picked(observed[b, h], [rows])
            fit = np.isfinite(expected) & np.isfinite(seen)
            gap = float(np.abs(np.where(fit, expected - seen, 0.0)).max(initial=0.0))
            allowed = eps_of(observed) * sizes[b] * (16.0 + 4.0 * reach)
            count += len(rows)
            if not bound or gap * bound > worst * allowed:
                worst, bound = gap, allowed
        return Mismatch(count, worst, bound)

    def _leak(self, call: Call) -> float:
        """The largest weight, of sampled heads, on a key that a mask was meant to hide."""
        assert call.meant is not None
        return max(
            float(np.where(call.meant_rows(b, h, rows), call.weights(b, h, rows), 0.0).max())
            for b, h, rows in ((b, h, seeing[: self.rows]) for b, h, seeing in self._seeing(call))
        )

    def _seeing(self, call: Call) -> list[tuple[int, int, Rows]]:
        """Up to four heads, and the rows of each that have a visible key.

        Raises
        ------
        UnresolvedError
            If no row of any head has one.
        """
        batch, heads = call.query.shape[:2]
        found: list[tuple[int, int, Rows]] = []
        for pair in self.generator.permutation(batch * heads).tolist():
            b, h = divmod(pair, heads)
            rows = call.rows_seeing(b, h)
            if rows.size:
                found.append((b, h, rows))
            if len(found) == _HEADS:
                break
        if not found:
            raise UnresolvedError(NOTHING_SEEN)
        return found

    def _compare_operands(
        self, pending: Pending, node: Node, tensors: list[Array], trails: list[Trail]
    ) -> None:
        for source, tensor, trail in zip(node.inputs[:2], tensors[:2], trails, strict=True):
            require_operand(source, tensor, trail, self.recorder, node.scope)
        pending.operands = "equal"

    def _measure_call(self, pending: Pending, call: Call, trails: list[Trail]) -> None:
        query_factor, key_factor = trails[0].constant, trails[1].constant
        visible = call.visible
        causal: Causal | None = "top_left" if call.causal else None
        queries, keys = (int(side.shape[2]) for side in (call.query, call.key))
        if visible is not None and causal is None:
            causal = alignment(pending.diagonal, queries, keys)
            # The mask says nothing else, and half of the scores need no look then.
            visible = visible if causal is None else None
        pending.summary = measure_call(
            call.query,
            call.key,
            call.scale * query_factor * key_factor,
            query_factor,
            key_factor,
            mask=visible,
            bias=call.bias,
            softcap=call.softcap,
            causal=causal,
            score_dtype=pending.score_dtype,
            value=call.value,
            inputs=self.projection_input(trails[0]),
            kept=pending.kept,
        )


def four(array: Array, heads: int | None) -> Array:
    """(batch, heads, positions, width) of an operand with any number of leading axes."""
    shape = tuple(array.shape)
    if len(shape) == 4:
        return array
    if len(shape) == 3:
        count = heads if heads and shape[0] % heads == 0 else 1
        return array.reshape((-1, count, *shape[-2:]))
    if len(shape) == 2:
        return array[None, None]
    return array.reshape((-1, *shape[-3:]))
