"""Further spellings in PyTorch, written before the first look at what identify says of them."""

import math

import torch
import torch.nn.functional as F
from faults_identify.registry import fault, sound


@fault("RDK101", "three dimensions and bmm", layout="hsd")
def by_bmm(q, k, v):
    return torch.bmm(torch.bmm(q, k.transpose(1, 2)).softmax(2), v)


@fault("RDK101", "scaled on the way in, undone on the way to the softmax")
def undone(q, k, v):
    q = q / math.sqrt(q.shape[-1])
    scores = (q @ k.mT) * q.shape[-1] ** 0.5
    return scores.softmax(-1) @ v


@fault("RDK103", "a norm of the whole width", layout="bshd")
def width_by_flatten(q, k, v):
    width = q.flatten(2).shape[-1]
    scores = torch.einsum("bihd,bjhd->bhij", q, k).div(math.sqrt(width))
    return torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v)


@fault("RDK104", "scaled before, and in the call")
def both_operands(q, k, v):
    root = q.shape[-1] ** -0.25
    return F.scaled_dot_product_attention(q * root, k * root, v)


@fault("RDK106", "a reciprocal too many")
def reciprocal_too_many(q, k, v):
    return torch.softmax(q @ k.mT * torch.rsqrt(torch.tensor(1.0 / q.shape[-1])), -1) @ v


@fault("RDK108", "the width of a padded head", layout="bshd")
def padded_head(q, k, v):
    target = 1 << (q.shape[-1] - 1).bit_length()
    q, k = (F.pad(x, (0, target - x.shape[-1])).transpose(1, 2) for x in (q, k))
    return F.scaled_dot_product_attention(q, k, v.transpose(1, 2)).transpose(1, 2)


@fault("RDK108", "the root by way of a small constant")
def with_epsilon(q, k, v):
    return torch.softmax(q @ k.mT / (math.sqrt(q.shape[-1]) + 1.0), -1) @ v


@fault("RDK109", "dropout's factor without dropout")
def keep_probability(q, k, v):
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) / 0.9 @ v


@fault("RDK110", "a scale that defaults are put over", also="RDK104")
def overwritten(q, k, v, softmax_scale=None):
    softmax_scale = 1.0 / math.sqrt(q.shape[-1])
    return F.scaled_dot_product_attention(q, k, v, scale=softmax_scale)


@fault("RDK111", "one query goes another way, and is not scaled")
def decode_unscaled(q, k, v):
    if q.shape[-2] == 1:
        return (q @ k.mT).softmax(-1) @ v
    return F.scaled_dot_product_attention(q, k, v)


@fault("RDK111", "the last, partial block is not scaled")
def partial_block_unscaled(q, k, v, block=64):
    scores = q @ k.mT
    whole = k.shape[-2] // block * block
    scores[..., :whole] *= q.shape[-1] ** -0.5
    if whole == 0:
        scores *= q.shape[-1] ** -0.5
    return scores.softmax(-1) @ v


@fault("RDK301", "a softmax without an axis for four dimensions")
def implicit_axis(q, k, v):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    return F.softmax(scores, dim=1) @ v


@fault("RDK303", "weights that dropout has thinned are not scaled up")
def threshold(q, k, v):
    weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
    return torch.where(weights > 0.05, weights, 0.0) @ v


@fault("RDK303", "squares of weights")
def squares(q, k, v):
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1).square() @ v


@fault("RDK303", "a sum over the visible part of a block only")
def first_block_not_counted(q, k, v, block=128):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    terms = torch.exp(scores - scores.amax(-1, keepdim=True))
    start = block if k.shape[-2] > block else 0
    return terms / terms[..., start:].sum(-1, keepdim=True) @ v


@fault("RDK305", "softmax of what a call gives for the identity")
def softmax_of_identity(q, k, v):
    identity = torch.eye(k.shape[-2], dtype=q.dtype).expand(*k.shape[:2], -1, -1)
    weights = F.scaled_dot_product_attention(q, k, identity)
    return weights.softmax(-1) @ v


@fault("RDK306", "capped before it is scaled")
def cap_then_scale(q, k, v, logit_softcapping=None):
    scores = q @ k.mT
    if logit_softcapping is not None:
        scores = torch.tanh(scores / logit_softcapping) * logit_softcapping
    return (scores * q.shape[-1] ** -0.5).softmax(-1) @ v


@fault("RDK307", "half precision inside, whatever comes in")
def half_inside(q, k, v):
    scores = (q.half() @ k.half().mT).float() / math.sqrt(q.shape[-1])
    return scores.softmax(-1).to(v.dtype) @ v


@fault("RDK304", "products in bfloat16, given float32")
def brain_product(q, k, v):
    scores = (q.bfloat16() @ k.bfloat16().mT).float() / math.sqrt(q.shape[-1])
    return scores.softmax(-1).to(v.dtype) @ v


@fault("RDK307", "scores that go through half precision")
def half_scores(q, k, v):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    return scores.half().to(v.dtype).softmax(-1) @ v


@fault("RDK402", "a boolean subtracted from one, times a hundred", also="RDK408")
def times_hundred(q, k, v, attention_mask=None):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if attention_mask is not None:
        scores = scores - 100.0 * (1 - attention_mask.to(scores.dtype))
    return scores.softmax(-1) @ v


@fault("RDK402", "the next sample's mask", also="RDK408 RDK401")
def next_sample(q, k, v, mask=None):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask.roll(1, 0), torch.finfo(scores.dtype).min)
    return scores.softmax(-1) @ v


@fault("RDK403", "a query sees one key more", also="RDK401 RDK408")
def diagonal_two(q, k, v, is_causal=False):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if is_causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(2)
        scores = scores.masked_fill(hidden, -torch.inf)
    return scores.softmax(-1) @ v


@fault(
    "RDK403",
    "rows are shifted when there are more keys",
    also="RDK401 RDK408",
    causal="bottom_right",
)
def top_left_with_cache(q, k, v, causal=True):
    mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril() if causal else None
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@fault("RDK404", "a causal mask of the upper triangle", also="RDK401 RDK408")
def upper_triangle(q, k, v, is_causal=False):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if is_causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).tril(-1)
        scores = scores.masked_fill(hidden, -torch.inf)
    return scores.softmax(-1) @ v


@fault("RDK405", "the bias of -5 that acts as less", also="RDK408")
def bias_with_scale(q, k, v, attn_mask=None):
    scores = q @ k.mT
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=q.dtype).masked_fill(~attn_mask, -1e30)
    if attn_mask is not None:
        scores += attn_mask
    return scores.mul(q.shape[-1] ** -0.5).softmax(-1) @ v


@fault("RDK406", "hidden weights are cleared")
def cleared(q, k, v, mask=None):
    weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
    return (weights if mask is None else weights * mask.to(weights.dtype)) @ v


@fault("RDK407", "the mask is only used in training", also="RDK708")
def only_in_training(q, k, v, attn_mask=None, training=False):
    mask = attn_mask if training else None
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@fault("RDK407", "causal for long sequences only")
def causal_for_long(q, k, v, is_causal=False):
    return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal and q.shape[-2] > 4096)


@fault("RDK409", "a symmetric window, one key narrow")
def narrow_symmetric(q, k, v, window_size=(-1, -1)):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    left, right = window_size
    distance = torch.arange(k.shape[-2]) - torch.arange(q.shape[-2])[:, None]
    hidden = torch.zeros_like(distance, dtype=torch.bool)
    if left >= 0:
        hidden |= distance <= -left
    if right >= 0:
        hidden |= distance >= right
    return scores.masked_fill(hidden, -torch.inf).softmax(-1).nan_to_num(0.0) @ v


@fault("RDK501", "expand and reshape in the wrong order")
def expand_then_reshape(q, k, v):
    batch, kv_heads, keys, _ = k.shape
    times = q.shape[1] // kv_heads
    k, v = (
        x[:, None].expand(batch, times, kv_heads, keys, -1).reshape(batch, -1, keys, x.shape[-1])
        for x in (k, v)
    )
    return F.scaled_dot_product_attention(q, k, v)


@fault("RDK502", "a transpose too many")
def transpose_too_many(q, k, v):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2)


@fault("RDK707", "dropout that trains for ever")
def always_dropping(q, k, v):
    weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
    return F.dropout(weights, 0.1) @ v


@fault("RDK708", "an argument for training that nobody asks")
def training_unasked(q, k, v, dropout=0.0, training=False):
    weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
    return F.dropout(weights, dropout) @ v


@fault("RDK708", "sinks beside a fused call", also="RDK407")
def sinks_beside(q, k, v, sinks=None, attn_mask=None):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask)


@sound("an interface with a module first", arguments={"module": ("fixed", None)})
def interface(module, query, key, value, attention_mask=None, scaling=None, dropout=0.0, **kwargs):
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    mask = attention_mask
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scaling)


@sound("keyword-only arrays")
def by_keyword(*, query, key, value):
    return F.scaled_dot_product_attention(query, key, value)


@sound("softmax in float32, products in the input's dtype")
def softmax_in_float(q, k, v):
    scores = (q * q.shape[-1] ** -0.5) @ k.mT
    return F.softmax(scores, dim=-1, dtype=torch.float32).to(v.dtype) @ v


@sound("always causal, declared", causal="top_left")
def always_causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@sound("always causal, undeclared")
def always_causal_undeclared(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@sound("the rows that attend are chosen by a mask of rows", notes="RDK408")
def no_mask_for_empty(q, k, v, attn_mask=None):
    if attn_mask is not None:
        attn_mask = attn_mask | ~attn_mask.any(-1, keepdim=True)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask)


@sound("the key is normalised, and shared with the query", notes="RDK108")
def shared_and_normalised(q, k, v):
    k = F.normalize(k, dim=-1)
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v


@sound("a softcap of 50, declared", softcap=50.0)
def declared_cap(q, k, v):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    return (50.0 * torch.tanh(scores / 50.0)).softmax(-1) @ v
