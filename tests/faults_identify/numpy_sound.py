"""Sound functions in NumPy, most of which look wrong."""

import math

import numpy as np
from faults_identify.numpy_mask import band, zero_when_empty
from faults_identify.numpy_scale import products, weights_of
from faults_identify.numpy_softmax import scaled
from faults_identify.registry import sound


@sound("the formula as it is printed")
def by_the_book(q, k, v):
    return weights_of(scaled(q, k)) @ v


@sound("the four best keys of each query")
def best_keys(q, k, v):
    scores = scaled(q, k)
    least = np.sort(scores, axis=-1)[..., -min(4, scores.shape[-1]), None]
    return weights_of(np.where(scores < least, -1e30, scores)) @ v


@sound("the number of heads has a default, beside heads that are merged", layout="bs(hd)")
def counted_heads(q, k, v, num_heads=4):
    def split(x):
        return x.reshape(*x.shape[:2], num_heads, -1).swapaxes(1, 2)

    out = weights_of(scaled(split(q), split(k))) @ split(v)
    return out.swapaxes(1, 2).reshape(*q.shape[:2], -1)


@sound("fourth roots on both sides")
def fourth_roots(q, k, v):
    root = q.shape[-1] ** -0.25
    return weights_of(products(q * root, k * root)) @ v


@sound("divided by the layer's number and multiplied by it again")
def layer_number_cancels(q, k, v, layer=7):
    scores = products(q, k) / (math.sqrt(q.shape[-1]) * layer)
    return weights_of(scores * layer) @ v


@sound("no scale, as declared", expect=1.0)
def no_scale_declared(q, k, v):
    return weights_of(products(q, k)) @ v


@sound("1/d, as declared", expect="1/head_dim")
def reciprocal_declared(q, k, v):
    return weights_of(products(q, k) / q.shape[-1]) @ v


@sound("the scalar of a configuration, as declared", expect=1 / 16)
def scalar_declared(q, k, v):
    return weights_of(products(q, k) * 256**-0.5) @ v


@sound("the whole width, as declared", expect="1/sqrt(hidden)")
def whole_width_declared(q, k, v):
    return weights_of(products(q, k) / math.sqrt(q.shape[1] * q.shape[-1])) @ v


@sound("a negative scale, as declared", expect="-1/sqrt(head_dim)")
def negative_declared(q, k, v):
    scores = scaled(q, k)
    return weights_of(scores.max(axis=-1, keepdims=True) - scores) @ v


@sound("a softmax of a logarithm of a softmax")
def softmax_of_log_softmax(q, k, v):
    return weights_of(np.log(np.maximum(weights_of(scaled(q, k)), 1e-300))) @ v


@sound("exp of scores less their logsumexp")
def by_logsumexp(q, k, v):
    scores = scaled(q, k)
    top = scores.max(axis=-1, keepdims=True)
    return np.exp(scores - top - np.log(np.exp(scores - top).sum(axis=-1, keepdims=True))) @ v


@sound("base two throughout")
def base_two(q, k, v, mask=None):
    scores = scaled(q, k) * math.log2(math.e)
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    powers = np.exp2(scores - scores.max(axis=-1, keepdims=True))
    weights = powers / powers.sum(axis=-1, keepdims=True)
    return (weights if mask is None else zero_when_empty(weights, mask)) @ v


@sound("masked after the softmax and divided by the sum once more")
def masked_and_renormalised(q, k, v, mask=None):
    scores = scaled(q, k)
    if mask is None:
        return weights_of(scores) @ v
    top = np.where(mask, scores, -np.inf).max(axis=-1, keepdims=True)
    terms = np.exp(np.where(mask, scores - np.where(np.isfinite(top), top, 0.0), -np.inf)) * mask
    total = terms.sum(axis=-1, keepdims=True)
    return terms / np.where(total == 0.0, 1.0, total) @ v


@sound("a causal mask that adds one to what is visible")
def visible_plus_one(q, k, v, causal=False):
    scores = scaled(q, k)
    if causal:
        visible = np.tril(np.ones(scores.shape[-2:], bool))
        scores = np.where(visible, scores + 1.0, -1e30)
    return weights_of(scores) @ v


@sound("slopes times the key's position, not its distance")
def alibi_by_position(q, k, v):
    heads, keys = q.shape[1], k.shape[-2]
    slopes = 2.0 ** (-8.0 * np.arange(1, heads + 1) / heads)
    return weights_of(scaled(q, k) + slopes[:, None, None] * np.arange(keys)) @ v


@sound("a sink of zero: one is added to a sum of plain terms")
def softmax_one(q, k, v):
    scores = scaled(q, k)
    top = np.maximum(scores.max(axis=-1, keepdims=True), 0.0)
    terms = np.exp(scores - top)
    return terms / (np.exp(-top) + terms.sum(axis=-1, keepdims=True)) @ v


@sound("a mask that is taken off rows that it would empty", notes="RDK408")
def mask_taken_off(q, k, v, mask=None):
    scores = scaled(q, k)
    if mask is not None:
        mask = mask | ~mask.any(axis=-1, keepdims=True)
        scores = np.where(mask, scores, -np.inf)
    return weights_of(scores) @ v


@sound("blocks of keys with a running maximum")
def running_maximum(q, k, v, block=64):
    top = np.full((*q.shape[:-1], 1), -np.inf)
    total, out = np.zeros_like(top), np.zeros((*q.shape[:-1], v.shape[-1]))
    for start in range(0, k.shape[-2], block):
        scores = scaled(q, k[..., start : start + block, :])
        new = np.maximum(top, scores.max(axis=-1, keepdims=True))
        terms, keep = np.exp(scores - new), np.exp(top - new)
        total = total * keep + terms.sum(axis=-1, keepdims=True)
        out = out * keep + terms @ v[..., start : start + block, :]
        top = new
    return out / total


@sound("a causal mask from the bottom right, undeclared")
def bottom_right(q, k, v, causal=False):
    scores = scaled(q, k)
    if causal:
        queries, keys = scores.shape[-2:]
        visible = np.tril(np.ones((queries, keys), bool), keys - queries)
        weights = weights_of(np.where(visible, scores, -1e30))
        return zero_when_empty(weights, visible) @ v
    return weights_of(scores) @ v


@sound("a window of inclusive reach")
def inclusive_window(q, k, v, window=None):
    scores = scaled(q, k)
    if window is None:
        return weights_of(scores) @ v
    visible = band(*scores.shape[-2:], *window)
    return zero_when_empty(weights_of(np.where(visible, scores, -1e30)), visible) @ v


@sound("heads repeated in place by an index")
def repeated_by_index(q, k, v):
    head = np.arange(q.shape[1]) // (q.shape[1] // k.shape[1])
    return weights_of(scaled(q, k[:, head])) @ v[:, head]


@sound("a softcap behind the scale")
def capped(q, k, v, softcap=None):
    scores = scaled(q, k)
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    return weights_of(scores) @ v


@sound("a length that no head has, without batch and heads", layout="sd")
def two_dimensions(q, k, v):
    return weights_of(q @ k.T / math.sqrt(q.shape[1])) @ v


@sound("cosine attention with a temperature", notes="RDK108")
def cosine(q, k, v):
    q = q / np.linalg.norm(q, axis=-1, keepdims=True)
    k = k / np.linalg.norm(k, axis=-1, keepdims=True)
    return weights_of(10.0 * products(q, k)) @ v


@sound("a temperature that grows with the query's position", notes="RDK111")
def sharper_later(q, k, v):
    position = np.arange(q.shape[-2])[:, None]
    return weights_of(scaled(q * (1.0 + 0.1 * np.log1p(position)), k)) @ v


@sound("a padding mask, where True hides")
def padding_mask(q, k, v, key_padding_mask=None):
    scores = scaled(q, k)
    if key_padding_mask is None:
        return weights_of(scores) @ v
    visible = np.broadcast_to(~key_padding_mask[:, None, None, :], scores.shape)
    return zero_when_empty(weights_of(np.where(visible, scores, -1e30)), visible) @ v
