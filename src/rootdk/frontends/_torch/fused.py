"""Fused attention operators: scaled_dot_product_attention, whole layers, flex_attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from rootdk.frontends._graph.node import LAYOUT, Kind, Node
from rootdk.frontends._graph.operand import OperandWalk
from rootdk.frontends._graph.trail import FactorStep, Trail, UnresolvedError
from rootdk.frontends._sites.arrange import heads_from_path
from rootdk.frontends._sites.call import Call
from rootdk.frontends._sites.measuring import hidden_by, measure_call
from rootdk.frontends._sites.pending import (
    Pending,
    kv_heads,
    settle_vectors,
    width_of_heads,
)
from rootdk.frontends._sites.recompute import Mismatch, eps_of
from rootdk.frontends._sites.replay import require_operand
from rootdk.frontends._torch.whole_layer import Layer
from rootdk.records import Addend

if TYPE_CHECKING:
    from rootdk.frontends._torch.recorder import Recorder

__all__ = ["FusedCalls"]

_SDPA_MASK = {
    "scaled_dot_product_attention": (3, "attn_mask", 4, 5),
    "_scaled_dot_product_attention_math": (3, "attn_mask", 4, 5),
    "_scaled_dot_product_attention_math_for_mps": (3, "attn_mask", 4, 5),
    "_scaled_dot_product_fused_attention_overrideable": (3, "attn_bias", 4, 5),
    "_scaled_dot_product_flash_attention_for_cpu": (None, "attn_mask", 3, 4),
    "_scaled_dot_product_flash_attention": (None, "attn_mask", 3, 4),
    "_scaled_dot_product_efficient_attention": (3, "attn_bias", 5, 6),
    "_scaled_dot_product_cudnn_attention": (3, "attn_bias", 5, 6),
}


class FusedCalls:
    """The part of the listener that deals with fused operators."""

    recorder: Recorder
    rows: int
    statistics: bool
    generator: torch.Generator
    fused: list[Pending]
    training_of: Callable[[], bool]
    progress: Callable[[str], None] | None

    def on_fused(
        self, name: str, node: Node, args: Sequence[Any], kwargs: dict[str, Any], out: Any
    ) -> bool:
        """Understand one fused call; return whether it could be."""
        if name in _SDPA_MASK:
            self._sdpa(name, node, args, kwargs, out)
            return True
        if name == "_native_multi_head_attention":
            self._whole_layer(node, args, kwargs, out, encoder=False)
            return True
        if name == "_transformer_encoder_layer_fwd":
            self._whole_layer(node, args, kwargs, out, encoder=True)
            return True
        if "flex_attention" in name and "backward" not in name:
            self._flex(node, args, kwargs, out)
            return True
        return False

    def projection_input(self, trail: Trail | None) -> torch.Tensor | None:
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
        if held is None or held.dim() < 2 or not held.is_floating_point():
            return None
        return held if held.shape[-1] == width else None

    # -- scaled_dot_product_attention ----------------------------------------------------------

    def _sdpa(
        self, name: str, node: Node, args: Sequence[Any], kwargs: dict[str, Any], out: Any
    ) -> None:
        mask_at, mask_key, dropout_at, causal_at = _SDPA_MASK[name]
        mask = kwargs.get(mask_key)
        if mask is None and mask_at is not None and len(args) > mask_at:
            mask = args[mask_at]
        dropout = _given(args, kwargs, dropout_at, "dropout_p", 0.0)
        causal = bool(_given(args, kwargs, causal_at, "is_causal", False))
        scale = kwargs.get("scale")
        tensors = [t.detach() for t in args[:3]]
        heads = heads_from_path(node.inputs[0], tensors[0].shape[-1])
        query, key, value = (_four(t, heads) for t in tensors)
        default = 1.0 / math.sqrt(query.shape[-1]) if query.shape[-1] else 1.0
        call = Call(query, key, value, default if scale is None else float(scale), causal=causal)
        if mask is not None:
            self._mask(call, mask.detach(), node, mask)
        words = "default of scaled_dot_product_attention" if scale is None else "scale argument"
        first = out[0] if isinstance(out, (tuple, list)) else out
        pending = self._pending(node, "scaled_dot_product_attention", call, float(dropout))
        factor = FactorStep(node, call.scale, origin=words)
        observed = _four(first.detach(), heads)
        self._finish(pending, call, factor, tensors, observed)

    def _mask(self, call: Call, mask: torch.Tensor, node: Node, original: Any) -> None:
        source = node.inputs[3] if len(node.inputs) > 3 else None
        mask = mask.reshape((1,) * (4 - mask.dim()) + tuple(mask.shape)) if mask.dim() < 4 else mask
        learned = source is not None and source.kind >= Kind.PARAMETER
        if mask.dtype == torch.bool:
            call.visible = mask
            call.fills.append(Addend(kind="mask", fill=-math.inf, source=node.source))
            return
        low, hidden = hidden_by(mask)
        rest = mask if hidden is None else mask.masked_fill(hidden, 0.0)
        biased = bool((rest != 0).any())
        if hidden is not None:
            call.visible = ~hidden
            call.fills.append(Addend(kind="mask", fill=low, source=node.source))
        if biased:
            call.bias = rest
            call.learned_bias = learned
            call.fills.append(Addend(kind="bias", learned=learned, source=node.source))

    def _pending(self, node: Node, spelling: str, call: Call, dropout: float) -> Pending:
        pending = Pending(node, spelling)
        pending.met_values = True
        pending.autocast = self.recorder.autocast
        pending.training = self.training_of()
        pending.score_dtype = str(call.query.dtype).removeprefix("torch.")
        pending.normalisation = {"exponentials": "kernel", "dtype": "float32"}
        pending.dropout = dropout
        pending.dropout_node = node if dropout else None
        pending.causal = "top_left" if call.causal else None
        pending.product_node = node
        pending.addends = list(call.fills)
        pending.cap = call.softcap
        pending.value_dim = int(call.value.shape[-1])
        pending.shapes = {
            "batch": int(call.query.shape[0]),
            "num_heads": int(call.query.shape[1]),
            "num_kv_heads": int(call.key.shape[1]),
            "queries": int(call.query.shape[2]),
            "keys": int(call.key.shape[2]),
            "head_dim": int(call.query.shape[3]),
        }
        node.attrs["output_of"] = node.index
        self.fused.append(pending)
        if self.progress is not None:
            self.progress(node.module_path)
        return pending

    def _finish(
        self,
        pending: Pending,
        call: Call,
        factor: FactorStep,
        tensors: list[torch.Tensor],
        observed: torch.Tensor,
    ) -> None:
        node = pending.node
        pending.observed["nonfinite_inputs"] = sum(
            int((~torch.isfinite(t)).sum()) for t in tensors[:2]
        )
        try:
            walk = OperandWalk(self.recorder.values, node.scope)
            trails = [walk.operand(source) for source in node.inputs[:2]]
            pending.query_trail, pending.key_trail = trails
            pending.shapes["head_dim"] = width_of_heads(pending, tensors[0], tensors[1])
            self._gather_factors(pending, trails, factor)
            pending.shapes["num_kv_heads"] = self._kv_heads(pending, node.inputs[1])
            if not pending.dropout:
                pending.mismatch = self._compare(call, observed)
                if not pending.mismatch.within:
                    raise UnresolvedError(
                        "the recomputed output differs from the observed one by "
                        f"{pending.mismatch.difference:.3g} (the dtype allows "
                        f"{pending.mismatch.bound:.3g})"
                    )
            self._compare_operands(pending, node, tensors, trails)
        except UnresolvedError as reason:
            pending.unresolved = str(reason)
            return
        if self.statistics:
            self._measure_call(pending, call, trails)

    def _kv_heads(self, pending: Pending, key: Node) -> int:
        here = kv_heads(key, pending.shapes["num_heads"])
        return min(here, pending.shapes["num_kv_heads"])

    @staticmethod
    def _gather_factors(pending: Pending, trails: list[Trail], factor: FactorStep) -> None:
        for trail, place in zip(trails, ("query", "key"), strict=True):
            settle_vectors(trail, place)
            pending.factors.extend((step, place) for step in trail.factors)
            for vector in trail.vectors:
                step = FactorStep(vector, None, "position-dependent", "a factor per position")
                pending.factors.append((step, place))
        pending.factors.append((factor, "kernel"))

    def _compare(self, call: Call, observed: torch.Tensor) -> Mismatch:
        batch, heads, queries = call.query.shape[:3]
        if not batch * heads * queries or not call.key.shape[2]:
            return Mismatch(0, 0.0, 0.0)
        pairs = torch.randint(batch * heads, (min(4, batch * heads),), generator=self.generator)
        each = max(self.rows // len(pairs), 1)
        worst, bound, count = 0.0, 0.0, 0
        for pair in pairs.tolist():
            b, h = divmod(pair, heads)
            rows = torch.randint(queries, (min(each, queries),), generator=self.generator)
            rows = rows.to(call.query.device)
            expected, seen = call.output(b, h, rows), observed[b, h, rows].double()
            fit = torch.isfinite(expected) & torch.isfinite(seen)
            gap = float(torch.where(fit, (expected - seen).abs(), torch.zeros_like(seen)).max())
            size = float(call.value[b].abs().nan_to_num(0.0).max())
            allowed = eps_of(observed.dtype) * size * (16.0 + 4.0 * call.reach(b, h, rows))
            count += len(rows)
            if not bound or gap * bound > worst * allowed:
                worst, bound = gap, allowed
        return Mismatch(count, worst, bound)

    def _compare_operands(
        self, pending: Pending, node: Node, tensors: list[torch.Tensor], trails: list[Trail]
    ) -> None:
        for source, tensor, trail in zip(node.inputs[:2], tensors[:2], trails, strict=True):
            require_operand(source, tensor, trail, self.recorder, node.scope)
        pending.operands = "equal"

    def _measure_call(self, pending: Pending, call: Call, trails: list[Trail]) -> None:
        query_factor, key_factor = trails[0].constant, trails[1].constant
        pending.summary = measure_call(
            call.query,
            call.key,
            call.scale * query_factor * key_factor,
            query_factor,
            key_factor,
            mask=call.visible,
            bias=call.bias,
            softcap=call.softcap,
            causal="top_left" if call.causal else None,
            score_dtype=pending.score_dtype,
            value=call.value,
            inputs=self.projection_input(trails[0]),
        )

    # -- nn.MultiheadAttention's and nn.TransformerEncoderLayer's fast paths --------------------

    def _whole_layer(
        self, node: Node, args: Sequence[Any], kwargs: dict[str, Any], out: Any, *, encoder: bool
    ) -> None:
        source = args[0].detach()
        layer = Layer(args, kwargs, encoder)
        query, key, value = layer.project(source)
        call = Call(query, key, value, 1.0 / math.sqrt(query.shape[-1]))
        layer.hide(call)
        pending = self._pending(node, "multi_head_attention fast path", call, 0.0)
        factor = FactorStep(node, call.scale, origin="default of multi_head_attention")
        pending.factors.append((factor, "kernel"))
        trail = Trail(terminals=frozenset({node}))
        pending.query_trail = pending.key_trail = trail
        pending.hidden = layer.width
        first = out[0] if isinstance(out, (tuple, list)) else out
        mismatch = layer.compare(call, source, first.detach(), self.generator, self.rows)
        pending.mismatch = mismatch
        if not mismatch.within:
            pending.unresolved = (
                "the recomputed output differs from the observed one by "
                f"{mismatch.difference:.3g} (the dtype allows {mismatch.bound:.3g})"
            )
            return
        pending.operands = "equal"
        if self.statistics:
            pending.summary = measure_call(
                query,
                key,
                call.scale,
                1.0,
                1.0,
                mask=call.visible,
                bias=call.bias,
                softcap=None,
                score_dtype=pending.score_dtype,
                value=value,
                inputs=layer.entering(source),
            )

    # -- flex_attention ------------------------------------------------------------------------

    def _flex(self, node: Node, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> None:
        from rootdk.frontends._torch.flex import understand

        tensors = [t.detach() for t in args[:3]]
        call, extra, reason = understand(args, kwargs)
        pending = self._pending(node, "flex_attention", call, 0.0)
        first = out[0] if isinstance(out, (tuple, list)) else out
        factor = FactorStep(node, float(args[5]), origin="scale of flex_attention")
        if extra is not None:
            pending.factors.append((FactorStep(node, extra, origin="score_mod"), "scores"))
        if reason is not None:
            pending.unresolved = reason
            return
        self._finish(pending, call, factor, tensors, first.detach())


def _given(args: Sequence[Any], kwargs: dict[str, Any], at: int, key: str, default: Any) -> Any:
    return args[at] if len(args) > at else kwargs.get(key, default)


def _four(tensor: torch.Tensor, heads: int | None) -> torch.Tensor:
    """(batch, heads, positions, width) of an operand with any number of leading axes."""
    if tensor.dim() == 4:
        return tensor
    if tensor.dim() == 3:
        count = heads if heads and tensor.shape[0] % heads == 0 else 1
        return tensor.reshape(-1, count, *tensor.shape[-2:])
    if tensor.dim() == 2:
        return tensor[None, None]
    return tensor.reshape(-1, *tensor.shape[-3:])
