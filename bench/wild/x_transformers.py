"""x-transformers, option by option, alone and on an ordinary decoder or encoder."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from wild.case import Made, add

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "flash": {"attn_flash": True},
    "rotary": {"rotary_pos_emb": True},
    "rotary, xpos": {"rotary_xpos": True},
    "rotary, part of a head": {"rotary_pos_emb": True, "rotary_emb_dim": 16},
    "polar positions": {"polar_pos_emb": True},
    "relative position bias": {"rel_pos_bias": True},
    "dynamic position bias": {"dynamic_pos_bias": True},
    "alibi": {"alibi_pos_bias": True, "alibi_num_heads": 2},
    "alibi, flash": {"alibi_pos_bias": True, "alibi_num_heads": 2, "attn_flash": True},
    "forgetting": {"attn_data_dependent_alibi": True},
    "query and key normalised": {"attn_qk_norm": True},
    "normalised, learned scale": {"attn_qk_norm": True, "attn_qk_norm_dim_scale": True},
    "normalised, fixed scale": {"attn_qk_norm": True, "attn_qk_norm_scale": 8.0},
    "one key and value head": {"attn_one_kv_head": True},
    "two key and value heads": {"attn_kv_heads": 2},
    "talking heads": {"attn_pre_talking_heads": True},
    "talking heads after": {"attn_post_talking_heads": True},
    "top 3 keys": {"attn_sparse_topk": 3},
    "softclamp": {"attn_softclamp_logits": True},
    "softclamp of 20": {"attn_softclamp_logits": True, "attn_logit_softclamp_value": 20.0},
    "sigmoid": {"attn_sigmoid": True},
    "distance": {"attn_l2_distance": True},
    "cog-signed": {"attn_cog_signed": True},
    "selective": {"attn_selective": True},
    "sink in the denominator": {"attn_add_zero_kv": True},
    "learned sinks": {"attn_num_mem_kv": 4},
    "head scale": {"attn_head_scale": True},
    "value residual": {"add_value_residual": True},
    "gated values": {"attn_gate_values": True},
    "on attention": {"attn_on_attn": True},
    "qk l2, quiet softmax": {"attn_add_zero_kv": True, "attn_qk_norm": True},
    "latent key and value": {"attn_use_latent_kv": True, "attn_dim_latent_kv": 32},
    "latent query": {"attn_use_latent_q": True, "attn_dim_latent_q": 32},
    "sandwich norm": {"sandwich_norm": True},
    "residual gates": {"gate_residual": True},
    "macaron": {"macaron": True},
    "cross and self": {"cross_attend": True},
    "orthogonal projections": {"attn_orthog_projected_values": True},
    "laser": {"attn_laser": True},
}


def _make(kind: str, options: dict[str, Any]) -> Made:
    import x_transformers

    chosen = {k: v for k, v in options.items() if v is not None}
    layers = getattr(x_transformers, kind)(
        dim=96, depth=2, heads=4, attn_dim_head=24, **chosen
    ).eval()
    kwargs = {"context": torch.randn(2, 9, 96)} if chosen.get("cross_attend") else {}
    return Made(layers, (torch.randn(2, 21, 96),), kwargs)


def _language() -> Made:
    from x_transformers import Decoder, TransformerWrapper

    model = TransformerWrapper(
        num_tokens=256, max_seq_len=64, attn_layers=Decoder(dim=96, depth=2, heads=4)
    )
    return Made(model.eval(), (torch.randint(0, 256, (2, 21)),))


for _name, _options in OPTIONS.items():
    add("x-transformers", f"decoder, {_name}", partial(_make, "Decoder", _options))
for _name in ("plain", "relative position bias", "query and key normalised", "distance"):
    add("x-transformers", f"encoder, {_name}", partial(_make, "Encoder", OPTIONS[_name]))
add("x-transformers", "language model", _language)
