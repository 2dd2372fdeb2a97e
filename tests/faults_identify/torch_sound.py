"""Sound functions in PyTorch, most of which look wrong."""

import math

import torch
import torch.nn.functional as F
from faults_identify.registry import sound
from faults_identify.torch_softmax import scaled


@sound("the library's call, whose scale is nowhere to be seen")
def library_call(query, key, value, attn_mask=None, is_causal=False, scale=None):
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask=attn_mask, is_causal=is_causal, scale=scale
    )


@sound("alpha and beta of one call: the bias is not scaled")
def alpha_and_beta(q, k, v, alibi=None):
    batch, heads, queries, head_dim = q.shape
    keys = k.shape[-2]
    if alibi is None:
        bias = torch.zeros(1, 1, 1, dtype=q.dtype).expand(batch * heads, queries, keys)
    else:
        bias = alibi.expand(batch, heads, queries, keys).reshape(-1, queries, keys).to(q.dtype)
    scores = torch.baddbmm(
        bias,
        q.reshape(-1, queries, head_dim),
        k.reshape(-1, keys, head_dim).mT,
        beta=1.0,
        alpha=head_dim**-0.5,
    )
    return scores.softmax(-1).view(batch, heads, queries, keys) @ v


@sound("a query scaled for a call that is told not to")
def scaled_once(q, k, v):
    return F.scaled_dot_product_attention(q * q.shape[-1] ** -0.5, k, v, scale=1.0)


@sound("a scale of its own, by way of the query")
def by_way_of_the_query(q, k, v, scale=None):
    if scale is not None:
        q = q * (scale * math.sqrt(q.shape[-1]))
    return F.scaled_dot_product_attention(q, k, v)


@sound("divided by d ** 0.5 in another layout", layout="bshd")
def sequence_first(q, k, v):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return ((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v).transpose(1, 2)


@sound("one key-value head for a group, by views")
def grouped_views(q, k, v):
    batch, heads, queries, head_dim = q.shape
    kv_heads = k.shape[1]
    grouped = q.view(batch, kv_heads, heads // kv_heads, queries, head_dim)
    scores = grouped @ k[:, :, None].mT * head_dim**-0.5
    return (scores.softmax(-1) @ v[:, :, None]).reshape(batch, heads, queries, -1)


@sound("grouped heads by the library's flag")
def grouped_by_flag(q, k, v, enable_gqa=True):
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=enable_gqa)


@sound("queries compete for keys, then rows are normalised", notes="RDK301")
def slots(q, k, v):
    weights = scaled(q, k).softmax(dim=-2)
    return weights / (weights.sum(-1, keepdim=True) + 1e-8) @ v


@sound("sinks in the denominator")
def with_sinks(query, key, value, sinks=None):
    scores = scaled(query, key)
    if sinks is None:
        return scores.softmax(-1) @ value
    sink = sinks.view(1, -1, 1, 1).expand(*scores.shape[:3], 1).to(scores.dtype)
    weights = torch.cat([scores, sink], dim=-1).softmax(-1)
    return weights[..., :-1] @ value


@sound("the difference of two softmaxes", notes="RDK303")
def difference_of_two(q, k, v):
    q1, q2 = q.chunk(2, -1)
    k1, k2 = k.chunk(2, -1)
    return (scaled(q1, k1).softmax(-1) - 0.2 * scaled(q2, k2).softmax(-1)) @ v


@sound("rows without a key are set to zero behind the softmax")
def nan_to_zero(q, k, v, attn_mask=None):
    scores = scaled(q, k)
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -torch.inf)
    return torch.nan_to_num(scores.softmax(-1), nan=0.0) @ v


@sound("mask as a number with the lowest value, and rows of zeros")
def lowest_and_zeroed(q, k, v, attn_mask=None):
    scores = scaled(q, k)
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(-1)
    return (weights if attn_mask is None else weights * attn_mask) @ v


@sound("a scale for each channel, as a learned one", notes="RDK108 RDK111")
def per_channel(q, k, v):
    gain = 1.0 + 0.3 * torch.sin(torch.arange(q.shape[-1], dtype=q.dtype))
    return scaled(q * gain, k).softmax(-1) @ v


@sound("a temperature for each head, as a learned one", notes="RDK108 RDK111")
def per_head(q, k, v):
    gain = 1.0 + 0.1 * torch.arange(q.shape[1], dtype=q.dtype)[:, None, None]
    return scaled(q * gain, k).softmax(-1) @ v


@sound("query and key are normalised to root mean square 1", notes="RDK108")
def normalised_rms(q, k, v):
    q = F.rms_norm(q, (q.shape[-1],))
    k = F.rms_norm(k, (k.shape[-1],))
    return F.scaled_dot_product_attention(q, k, v)


@sound("a fixed cap, always on")
def fixed_cap(q, k, v):
    return (30.0 * torch.tanh(scaled(q, k) / 30.0)).softmax(-1) @ v


@sound("a declared constant", expect=0.08838834764831845)
def declared_constant(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, scale=0.08838834764831845)


@sound("float32 inside, whatever comes in")
def float32_inside(q, k, v):
    scores = q.float() * q.shape[-1] ** -0.5 @ k.float().mT
    return (scores.softmax(-1) @ v.float()).to(q.dtype)


@sound("dropout in training only")
def drops_in_training(q, k, v, dropout_p=0.0, training=False):
    weights = F.dropout(scaled(q, k).softmax(-1), dropout_p, training=training)
    return weights @ v


@sound("weights as a second result, when asked for")
def with_weights(q, k, v, return_weights=False):
    weights = scaled(q, k).softmax(-1)
    return (weights @ v, weights) if return_weights else weights @ v


@sound("a sliding window of w keys")
def sliding(q, k, v, sliding_window=None):
    scores = scaled(q, k)
    if sliding_window is not None:
        ones = torch.ones(scores.shape[-2:], dtype=torch.bool)
        visible = ones.tril() & ones.triu(-(sliding_window - 1))
        scores = scores.masked_fill(~visible, -torch.inf)
        return scores.softmax(-1).nan_to_num(0.0) @ v
    return scores.softmax(-1) @ v


@sound("a causal mask from the top left, declared", causal="top_left")
def declared_top_left(q, k, v, is_causal=False):
    return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)


@sound("a width padded to a multiple of eight, with the scale of the true one")
def padded_rightly(q, k, v):
    head_dim = q.shape[-1]
    q, k = (F.pad(x, (0, -head_dim % 8)) for x in (q, k))
    return F.scaled_dot_product_attention(q, k, v, scale=head_dim**-0.5)


@sound("tiles of queries and keys, in base two")
def tiles(q, k, v, rows=32, columns=64):
    scale = math.log2(math.e) * q.shape[-1] ** -0.5
    outputs = []
    for block in q.split(rows, dim=-2):
        top = torch.full((*block.shape[:-1], 1), -torch.inf, dtype=q.dtype)
        total, out = torch.zeros_like(top), 0.0
        for keys, values in zip(k.split(columns, -2), v.split(columns, -2), strict=True):
            scores = block @ keys.mT * scale
            new = torch.maximum(top, scores.amax(-1, keepdim=True))
            terms, keep = torch.exp2(scores - new), torch.exp2(top - new)
            total, out, top = (
                total * keep + terms.sum(-1, keepdim=True),
                out * keep + terms @ values,
                new,
            )
        outputs.append(out / total)
    return torch.cat(outputs, dim=-2)
