"""Further spellings in NumPy, written before the first look at what identify says of them."""

import math

import numpy as np
from faults_identify.registry import fault, sound


def softmax(scores, axis=-1):
    scores = scores - np.max(scores, axis=axis, keepdims=True)
    return np.exp(scores) / np.exp(scores).sum(axis=axis, keepdims=True)


class Attention:
    """An object with state of its own, called like a function."""

    def __init__(self, heads, head_dim):
        self.scale = (heads * head_dim) ** -0.5

    def __call__(self, query, key, value):
        return softmax(self.scale * query @ key.swapaxes(2, 3)) @ value


@fault("RDK101", "without a batch", layout="hsd")
def without_batch(q, k, v):
    return np.einsum("hqk,hkd->hqd", softmax(np.einsum("hqd,hkd->hqk", q, k)), v)


@fault("RDK103", "without a batch, the sequence first", layout="shd")
def all_channels(q, k, v):
    channels = q[0].size
    scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(channels)
    return np.einsum("hqk,khd->qhd", softmax(scores), v)


@fault("RDK104", "the square of a root")
def root_squared(q, k, v):
    temperature = np.sqrt(q.shape[-1])
    return softmax(q @ k.swapaxes(-1, -2) / temperature**2) @ v


@fault("RDK105", "the last axis of a transposed key")
def last_axis_of_transposed(q, k, v):
    transposed = np.swapaxes(k, -1, -2)
    return softmax(q @ transposed / math.sqrt(transposed.shape[-1])) @ v


@fault("RDK105", "falls with the length, beside the width")
def length_beside_width(q, k, v):
    return softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1] * k.shape[-2])) @ v


@fault("RDK106", "a power with the wrong sign")
def wrong_power(q, k, v):
    return softmax(np.power(float(q.shape[-1]), 0.5) * (q @ k.swapaxes(-1, -2))) @ v


@fault("RDK107", "the groups that share a key")
def root_of_key_value_heads(q, k, v):
    times = q.shape[1] // k.shape[1]
    kv_heads = k.shape[1]
    k, v = np.repeat(k, times, axis=1), np.repeat(v, times, axis=1)
    return softmax(q @ k.swapaxes(-1, -2) / math.sqrt(kv_heads)) @ v


@fault("RDK108", "the root of twice the width")
def root_of_twice(q, k, v):
    return softmax(q @ k.swapaxes(-1, -2) / math.sqrt(2 * q.shape[-1])) @ v


@fault("RDK108", "a context factor that the rotation holds already")
def context_factor(q, k, v):
    mscale = 0.1 * math.log(40.0) + 1.0
    return softmax(q @ k.swapaxes(-1, -2) * (mscale**2 / math.sqrt(q.shape[-1]))) @ v


@fault("RDK108", "a logarithm for a root")
def logarithm_for_root(q, k, v):
    return softmax(q @ k.swapaxes(-1, -2) / math.log2(q.shape[-1])) @ v


@fault("RDK109", "the output is divided by the root")
def output_divided(q, k, v):
    return softmax(q @ k.swapaxes(-1, -2)) @ v / math.sqrt(q.shape[-1])


@fault("RDK110", "the scale counts only beside a mask", also="RDK401 RDK408")
def scale_beside_mask(q, k, v, mask=None, scale=None):
    scores = q @ k.swapaxes(-1, -2)
    if mask is None:
        return softmax(scores / np.sqrt(q.shape[-1])) @ v
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return softmax(np.where(mask, scores * scale, -1e30)) @ v


@fault("RDK106", "divided by the scale that is passed")
def divided_by_given(q, k, v, scale=None):
    if scale is None:
        scale = q.shape[-1] ** 0.5
    return softmax(q @ k.swapaxes(-1, -2) / scale) @ v


@fault("RDK301", "the first axis without a batch", layout="hsd")
def first_axis(q, k, v):
    return softmax(q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5, axis=0) @ v


@fault("RDK302", "the mean is subtracted for the maximum")
def mean_for_maximum(q, k, v):
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    terms = np.exp(scores - scores.mean(-1, keepdims=True))
    return terms / terms.sum(-1, keepdims=True) @ v


@fault("RDK302", "the first score of a row for its maximum")
def first_for_maximum(q, k, v):
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    terms = np.exp(scores - scores[..., :1])
    return terms / terms.sum(-1, keepdims=True) @ v


@fault("RDK307", "products in half precision, given float32")
def half_product(q, k, v):
    products = q.astype(np.float16) @ k.swapaxes(-1, -2).astype(np.float16)
    return softmax(products.astype(q.dtype) * np.float32(q.shape[-1] ** -0.5)) @ v


@fault("RDK111", "one head goes another way, and is not scaled")
def single_head_unscaled(q, k, v):
    scores = q @ k.swapaxes(-1, -2)
    if q.shape[1] == 1:
        return softmax(scores) @ v
    return softmax(scores / np.sqrt(q.shape[-1])) @ v


@fault("RDK306", "a softcap that is taken before the scale")
def capped_unscaled(q, k, v, attn_logit_cap=None):
    scores = q @ k.swapaxes(-1, -2)
    if attn_logit_cap is not None:
        scores = attn_logit_cap * np.tanh(scores / attn_logit_cap)
    return softmax(scores / np.sqrt(q.shape[-1])) @ v


@fault("RDK303", "divided by the largest term")
def divided_by_largest(q, k, v):
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    terms = np.exp(scores - scores.max(-1, keepdims=True))
    return terms / terms.max(-1, keepdims=True) @ v


@fault("RDK303", "the eight best keys of a softmax over all")
def best_keys_only(q, k, v):
    weights = softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]))
    best = np.sort(weights, axis=-1)[..., -4:-3] if weights.shape[-1] > 4 else 0.0
    return np.where(weights >= best, weights, 0.0) @ v


@fault("RDK306", "the output is capped")
def output_capped(q, k, v, softcap=None):
    out = softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])) @ v
    return out if softcap is None else softcap * np.tanh(out / softcap)


@fault("RDK401", "more queries than keys, from the bottom right")
def empty_by_causal(q, k, v, causal=False):
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if causal:
        offset = k.shape[-2] - q.shape[-2]
        scores = np.where(np.tri(*scores.shape[-2:], offset, dtype=bool), scores, -np.inf)
    with np.errstate(invalid="ignore"):
        return softmax(scores) @ v


@fault("RDK404", "True times a large negative number", also="RDK408")
def mask_times_minus(q, k, v, mask=None):
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores + mask * -1e30
    return softmax(scores) @ v


@fault("RDK402", "the mask of the first query for all", also="RDK408 RDK401")
def first_row_of_mask(q, k, v, mask=None):
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask[..., :1, :], scores, -1e30)
    return softmax(scores) @ v


@fault("RDK405", "half of the bias")
def half_of_bias(q, k, v, attn_bias=None):
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if attn_bias is not None:
        scores = scores + 0.5 * attn_bias
    return softmax(scores) @ v


@fault("RDK409", "one key less than the window", also="RDK408")
def strictly_less(q, k, v, sliding_window=None):
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if sliding_window is not None:
        behind = np.arange(q.shape[-2])[:, None] - np.arange(k.shape[-2])
        scores = np.where((behind >= 0) & (behind < sliding_window - 1), scores, -1e30)
    return softmax(scores) @ v


@fault("RDK501", "divided by the number of groups, not of their members")
def divided_by_groups(q, k, v):
    head = np.minimum(np.arange(q.shape[1]) // k.shape[1], k.shape[1] - 1)
    return softmax(q @ k[:, head].swapaxes(-1, -2) / np.sqrt(q.shape[-1])) @ v[:, head]


@fault("RDK502", "the heads come second", layout="hsd")
def heads_second(q, k, v):
    scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(q.shape[-1])
    return np.einsum("hqk,khd->qhd", softmax(scores), v)


@fault("RDK708", "a bias that is only checked", also="RDK407")
def bias_checked_only(q, k, v, bias=None):
    if bias is not None and bias.shape[-1] != k.shape[-2]:
        raise ValueError("bias does not fit the keys")
    return softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])) @ v


model_width = fault("RDK103", "an object that was made for a width")(
    lambda query, key, value: Attention(query.shape[1], query.shape[3])(query, key, value)
)
model_width.__name__ = "model_width"


@sound("a temperature of its own, declared", expect="1/sqrt(2*head_dim)")
def declared_root_of_twice(q, k, v):
    return softmax(q @ k.swapaxes(-1, -2) / math.sqrt(2 * q.shape[-1])) @ v


@sound("the sequence first and no batch", layout="shd")
def sequence_first_no_batch(q, k, v):
    scores = np.einsum("qhd,khd->hqk", q, k) * q.shape[-1] ** -0.5
    return np.einsum("hqk,khd->qhd", softmax(scores), v)


@sound("a sink for each head, built in")
def built_in_sinks(q, k, v):
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    sink = 0.5 + 0.25 * np.arange(q.shape[1])[:, None, None]
    top = np.maximum(scores.max(-1, keepdims=True), sink)
    terms = np.exp(scores - top)
    return terms / (terms.sum(-1, keepdims=True) + np.exp(sink - top)) @ v


@sound("slopes times the distance, in a causal function")
def alibi_by_distance(q, k, v):
    heads, queries, keys = q.shape[1], q.shape[-2], k.shape[-2]
    slopes = 2.0 ** (-8.0 * np.arange(1, heads + 1) / heads)
    distance = np.arange(keys) - (np.arange(queries) + keys - queries)[:, None]
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) + slopes[:, None, None] * distance
    return softmax(scores) @ v


@sound("an additive mask of zeros and minus infinity, and zeros in empty rows")
def additive_only(q, k, v, attn_mask=None):
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if attn_mask is None:
        return softmax(scores) @ v
    if attn_mask.dtype == bool:
        attn_mask = np.where(attn_mask, 0.0, -np.inf)
    scores = scores + attn_mask
    top = scores.max(-1, keepdims=True)
    terms = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = terms.sum(-1, keepdims=True)
    return terms / np.where(total == 0.0, 1.0, total) @ v


@sound("a window around every query, built in and declared", window=(2, 2))
def local_and_declared(q, k, v):
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    far = abs(np.arange(q.shape[-2])[:, None] - np.arange(k.shape[-2])) > 2
    scores = np.where(far, -1e30, scores)
    return softmax(scores) * ~far.all(-1, keepdims=True) @ v


@sound("one query goes another way, to the same scale")
def single_query_apart(q, k, v):
    if q.shape[-2] == 1:
        scores = np.sum(q * k, axis=-1)[..., None, :]
        return softmax(scores / np.sqrt(q.shape[-1])) @ v
    return softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])) @ v


@sound("a maximum over the first half and one over the second, the larger of them")
def maximum_in_halves(q, k, v):
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    half = -(-scores.shape[-1] // 2)
    first = scores[..., :half].max(-1, keepdims=True)
    rest = scores[..., half:].max(-1, keepdims=True, initial=-np.inf)
    terms = np.exp(scores - np.maximum(first, rest))
    return terms / terms.sum(-1, keepdims=True) @ v
