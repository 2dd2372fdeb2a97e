"""Faults of the scale in PyTorch."""

import math

import torch
import torch.nn.functional as F
from faults_identify.registry import fault
from torch import Tensor


@fault("RDK101", "a fused call that is told to scale by 1")
def fused_with_one(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, scale=1.0)


@fault("RDK101", "einsum in another layout", layout="bshd")
def einsum_unscaled(q, k, v):
    weights = torch.einsum("blhd,bshd->bhls", q, k).softmax(dim=-1)
    return torch.einsum("bhls,bshd->blhd", weights, v)


@fault("RDK101", "in a causal model", also="RDK401")
def causal_unscaled(q, k, v, is_causal=False):
    scores = q @ k.mT
    if is_causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    return scores.softmax(-1) @ v


@fault("RDK103", "the embedding's width", layout="bshd")
def embedding_width(q, k, v):
    heads, head_dim = q.shape[2:]
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    channels = heads * head_dim
    weights = F.softmax(q @ k.transpose(-2, -1) * channels**-0.5, dim=-1)
    return (weights @ v).transpose(1, 2)


@fault("RDK103", "a fused call given the whole width")
def fused_with_whole_width(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, scale=(q.size(1) * q.size(-1)) ** -0.5)


@fault("RDK104", "the query is scaled before a call that scales")
def query_scaled_before_fused(q, k, v):
    q = q * q.shape[-1] ** -0.5
    return F.scaled_dot_product_attention(q, k, v)


@fault("RDK104", "alpha is the reciprocal of the width")
def alpha_of_width(q, k, v):
    batch, heads, queries, head_dim = q.shape
    scores = torch.baddbmm(
        torch.zeros(batch * heads, queries, k.shape[2]),
        q.reshape(-1, queries, head_dim).float(),
        k.reshape(-1, k.shape[2], head_dim).mT.float(),
        alpha=1.0 / head_dim,
    )
    weights = scores.softmax(-1).view(batch, heads, queries, -1).to(v.dtype)
    return weights @ v


@fault("RDK105", "the root of the query's length")
def root_of_query_length(q, k, v):
    scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(q.size(-2))
    return torch.matmul(scores.softmax(dim=-1), v)


@fault("RDK105", "a fused call given the length of the keys")
def fused_with_length(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, scale=1 / math.sqrt(k.size(-2)))


@fault("RDK106", "divided by a scale that already is a reciprocal")
def divided_by_reciprocal(q, k, v):
    scale = q.shape[-1] ** -0.5
    return ((q @ k.mT) / scale).softmax(-1) @ v


@fault("RDK106", "multiplied by the width")
def multiplied_by_width(q, k, v):
    return ((q @ k.mT) * q.shape[-1]).softmax(-1) @ v


@fault("RDK107", "twelve heads instead of sixty-four channels")
def heads_for_channels(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    scores = query @ key.transpose(-1, -2)
    return torch.softmax(scores * (1.0 / query.size(1) ** 0.5), dim=-1) @ value


@fault("RDK108", "the scale of one model's width")
def constant_of_one_model(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, scale=0.08838834764831845)


@fault("RDK108", "the cube root")
def cube_root(q, k, v):
    return (q @ k.mT * q.shape[-1] ** (-1 / 3)).softmax(-1) @ v


@fault("RDK108", "divided by the depth of its layer")
def divided_by_depth(q, k, v, layer=3):
    return ((q @ k.mT) / math.sqrt(q.shape[-1]) / (layer + 1)).softmax(-1) @ v


@fault("RDK108", "scores of zero")
def scale_of_zero(q, k, v):
    scale = 1 // q.shape[-1]
    return ((q @ k.mT) * scale).softmax(-1) @ v


@fault("RDK109", "the weights are scaled, the scores are not")
def weights_scaled(q, k, v):
    energy = torch.einsum("bhqd,bhkd->bhqk", q, k)
    return torch.einsum("bhqk,bhkd->bhqd", energy.softmax(-1) / math.sqrt(q.shape[-1]), v)


@fault("RDK109", "the output is doubled")
def output_doubled(q, k, v):
    return 2.0 * F.scaled_dot_product_attention(q, k, v)


@fault("RDK110", "a wrapper that forgets to hand the scale on")
def wrapper_forgets_scale(q, k, v, attn_mask=None, softmax_scale=None):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask)


@fault("RDK110", "the module's own width instead of the scaling that is passed")
def own_width_for_scaling(query, key, value, scaling=None, **kwargs):
    scores = query @ key.transpose(2, 3) * query.shape[-1] ** -0.5
    return F.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype) @ value


@fault("RDK104", "a given scale is used on top of the standard one")
def given_scale_on_top(q, k, v, scale=None):
    if scale is not None:
        q = q * scale
    return F.scaled_dot_product_attention(q, k, v)


@fault("RDK111", "each block of keys changes the base once more")
def base_changed_in_the_loop(q, k, v, block=128):
    factor = q.shape[-1] ** -0.5
    top = torch.full(q.shape[:-1], -torch.inf, dtype=q.dtype)
    total = torch.zeros_like(top)
    out = torch.zeros(*q.shape[:-1], v.shape[-1], dtype=q.dtype)
    for start in range(0, k.shape[-2], block):
        factor = factor * math.log2(math.e)
        scores = q @ k[..., start : start + block, :].mT * factor
        new = torch.maximum(top, scores.amax(-1))
        terms = torch.exp2(scores - new[..., None])
        keep = torch.exp2(top - new)
        total = total * keep + terms.sum(-1)
        out = out * keep[..., None] + terms @ v[..., start : start + block, :]
        top = new
    return out / total[..., None]
