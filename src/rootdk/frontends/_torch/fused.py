"""Fused attention operators: scaled_dot_product_attention, whole layers, flex_attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from rootdk.frontends._graph.node import Node
from rootdk.frontends._graph.trail import FactorStep, Trail, UnresolvedError
from rootdk.frontends._sites.arrange import heads_from_path
from rootdk.frontends._sites.attend import Attending
from rootdk.frontends._sites.call import Call
from rootdk.frontends._sites.calls import four
from rootdk.frontends._sites.measuring import measure_call
from rootdk.frontends._torch.whole_layer import Layer

__all__ = ["TorchAttending"]

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


class TorchAttending(Attending):
    """The listener of the recorder: attention in pieces, and torch's fused operators."""

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
        query, key, value = (four(t, heads) for t in tensors)
        default = 1.0 / math.sqrt(query.shape[-1]) if query.shape[-1] else 1.0
        call = Call(query, key, value, default if scale is None else float(scale), causal=causal)
        if mask is not None:
            source = node.inputs[3] if len(node.inputs) > 3 else None
            self.mask_call(call, mask.detach(), node, source)
        words = "default of scaled_dot_product_attention" if scale is None else "scale argument"
        pending = self.begin_call(node, "scaled_dot_product_attention", call, float(dropout))
        factor = FactorStep(node, call.scale, origin=words)
        if dropout:
            try:
                out = _without_dropout(name, args, kwargs, dropout_at)
            except (RuntimeError, TypeError, NotImplementedError):
                pending.unresolved = (
                    "the call could not be repeated without its dropout: nothing was compared"
                )
                return
        first = out[0] if isinstance(out, (tuple, list)) else out
        observed = four(first.detach(), heads)
        self.finish_call(pending, call, factor, tensors, observed)

    # -- nn.MultiheadAttention's and nn.TransformerEncoderLayer's fast paths --------------------

    def _whole_layer(
        self, node: Node, args: Sequence[Any], kwargs: dict[str, Any], out: Any, *, encoder: bool
    ) -> None:
        source = args[0].detach()
        layer = Layer(args, kwargs, encoder)
        query, key, value = layer.project(source)
        call = Call(query, key, value, 1.0 / math.sqrt(query.shape[-1]))
        layer.hide(call)
        pending = self.begin_call(node, "multi_head_attention fast path", call, 0.0)
        factor = FactorStep(node, call.scale, origin="default of multi_head_attention")
        pending.factors.append((factor, "kernel"))
        trail = Trail(terminals=frozenset({node}))
        pending.query_trail = pending.key_trail = trail
        pending.hidden = layer.width
        first = out[0] if isinstance(out, (tuple, list)) else out
        try:
            mismatch = layer.compare(call, source, first.detach(), self.generator, self.rows)
        except UnresolvedError as reason:
            pending.unresolved = str(reason)
            return
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
        pending = self.begin_call(node, "flex_attention", call, 0.0)
        first = out[0] if isinstance(out, (tuple, list)) else out
        factor = FactorStep(node, float(args[5]), origin="scale of flex_attention")
        if extra is not None:
            pending.factors.append((FactorStep(node, extra, origin="score_mod"), "scores"))
        if reason is not None:
            pending.unresolved = reason
            return
        self.finish_call(pending, call, factor, tensors, first.detach())


def _without_dropout(name: str, args: Sequence[Any], kwargs: dict[str, Any], at: int) -> Any:
    """What the same operator gives of the same arguments when it drops nothing.

    It then draws no random numbers, so that the model's run is as it would be.
    """
    if len(args) > at:
        args = (*args[:at], 0.0, *args[at + 1 :])
    else:
        kwargs = {**kwargs, "dropout_p": 0.0}
    return getattr(torch.ops.aten, name)(*args, **kwargs)


def _given(args: Sequence[Any], kwargs: dict[str, Any], at: int, key: str, default: Any) -> Any:
    return args[at] if len(args) > at else kwargs.get(key, default)
