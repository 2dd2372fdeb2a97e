"""Attention in NumPy, right and in many wrong ways, each by one line."""

import math
import time

import numpy as np


def softmax(scores, axis=-1):
    terms = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return terms / terms.sum(axis=axis, keepdims=True)


def products(query, key):
    return query @ key.swapaxes(-1, -2)


def scaled(query, key):
    return products(query, key) / math.sqrt(query.shape[-1])


def standard(query, key, value):
    return softmax(scaled(query, key)) @ value


def unscaled(query, key, value):
    return softmax(products(query, key)) @ value


def times_eight(query, key, value):
    return softmax(8.0 * products(query, key)) @ value


def over_1024(query, key, value):
    return softmax(products(query, key) / 1024.0) @ value


def over_width(query, key, value):
    return softmax(products(query, key) / query.shape[-1]) @ value


def over_model_width(query, key, value):
    return softmax(products(query, key) / math.sqrt(query.shape[-1] * query.shape[1])) @ value


def over_keys(query, key, value):
    return softmax(products(query, key) / math.sqrt(key.shape[-2])) @ value


def over_queries(query, key, value):
    return softmax(products(query, key) / math.sqrt(query.shape[-2])) @ value


def over_heads(query, key, value):
    return softmax(products(query, key) / math.sqrt(query.shape[1])) @ value


def over_batch(query, key, value):
    return softmax(products(query, key) / math.sqrt(query.shape[0])) @ value


def over_value_width(query, key, value):
    return softmax(products(query, key) / math.sqrt(value.shape[-1])) @ value


def times_root(query, key, value):
    return softmax(products(query, key) * math.sqrt(query.shape[-1])) @ value


def half_of_standard(query, key, value):
    return softmax(0.5 * scaled(query, key)) @ value


def by_log_of_keys(query, key, value):
    return softmax(math.log(key.shape[-2]) * scaled(query, key)) @ value


def padded_width(query, key, value):
    width = 32 * math.ceil(query.shape[-1] / 32)
    return softmax(products(query, key) / math.sqrt(width)) @ value


def by_head(query, key, value):
    factors = np.arange(1.0, query.shape[1] + 1.0)[:, None, None]
    return softmax(factors * scaled(query, key)) @ value


def by_query(query, key, value):
    factors = 1.0 + 0.1 * np.arange(query.shape[2])[:, None]
    return softmax(factors * scaled(query, key)) @ value


def by_channel(query, key, value):
    factors = 1.0 + 0.1 * np.arange(query.shape[3])
    return softmax(scaled(query * factors, key)) @ value


def scale_behind(query, key, value):
    return softmax(products(query, key)) / math.sqrt(query.shape[-1]) @ value


def over_the_queries(query, key, value):
    return softmax(scaled(query, key), -2) @ value


def over_the_heads(query, key, value):
    return softmax(scaled(query, key), 1) @ value


def slots(query, key, value):
    weights = softmax(scaled(query, key), -2)
    return weights / weights.sum(axis=-1, keepdims=True) @ value


def twice(query, key, value):
    return softmax(softmax(scaled(query, key))) @ value


def capped(query, key, value):
    return softmax(50.0 * np.tanh(scaled(query, key) / 50.0)) @ value


def clipped(query, key, value):
    return softmax(np.clip(scaled(query, key), -30.0, 30.0)) @ value


def cosine(query, key, value):
    def unit(array):
        return array / np.linalg.norm(array, axis=-1, keepdims=True)

    return softmax(10.0 * products(unit(query), unit(key))) @ value


def slopes(query, key, value):
    heads = query.shape[1]
    steps = 2.0 ** (-8.0 * (np.arange(heads) + 1) / heads)
    return softmax(scaled(query, key) + steps[:, None, None] * np.arange(key.shape[-2])) @ value


def plus_one(query, key, value):
    scores = scaled(query, key)
    top = np.maximum(scores.max(axis=-1, keepdims=True), 0.0)
    terms = np.exp(scores - top)
    return terms / (np.exp(-top) + terms.sum(axis=-1, keepdims=True)) @ value


def plus_one_of_the_maximum(query, key, value):
    scores = scaled(query, key)
    terms = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return terms / (1.0 + terms.sum(axis=-1, keepdims=True)) @ value


def always_causal(query, key, value):
    scores = scaled(query, key)
    visible = np.tri(*scores.shape[-2:], scores.shape[-1] - scores.shape[-2], dtype=bool)
    return softmax(np.where(visible, scores, -1e30)) @ value


def bare(query, key, value):
    terms = np.exp(scaled(query, key))
    return terms / terms.sum(axis=-1, keepdims=True) @ value


def linear(query, key, value):
    return products(query, key) @ value


def masked(query, key, value, mask=None):
    scores = scaled(query, key)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(softmax(scores)) @ value


def with_everything(
    query, key, value, mask=None, bias=None, is_causal=False, scale=None, softcap=None, window=None
):
    scores = products(query, key) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if softcap is not None:
        scores = softcap * np.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    queries, keys = scores.shape[-2:]
    ahead = np.arange(keys)[None, :] - np.arange(queries)[:, None] - (keys - queries)
    visible = np.ones((queries, keys), bool) if mask is None else mask
    if is_causal:
        visible = visible & (ahead <= 0)
    if window is not None:
        visible = visible & (ahead >= -window[0]) & (ahead <= window[1])
    scores = np.where(visible, scores, -np.inf)
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(softmax(scores)) @ value


def refuses(query, key, value):
    raise RuntimeError("no kernel for this\nand more that nobody reads")


def returns_none(query, key, value):
    return None


def returns_another_shape(query, key, value):
    return standard(query, key, value)[..., :-1]


def sequence_first_output(query, key, value):
    return standard(query, key, value).swapaxes(1, 2)


def returns_a_list(query, key, value):
    return [[1.0]]


def returns_nan(query, key, value):
    return np.full_like(standard(query, key, value), np.nan)


def returns_text(query, key, value):
    return np.full(standard(query, key, value).shape, "x")


def returns_complex(query, key, value):
    return standard(query, key, value).astype(complex)


def leaves(query, key, value):
    raise SystemExit(3)


def calls_itself(query, key, value):
    return calls_itself(query, key, value)


def refuses_no_samples(query, key, value):
    if len(query) == 0:
        raise ValueError("no samples")
    return standard(query, key, value)


def scales_in_place(query, key, value):
    query *= query.shape[-1] ** -0.5
    scores = query @ key.swapaxes(-1, -2)
    terms = np.exp(scores - scores.max(-1, keepdims=True))
    return terms / terms.sum(-1, keepdims=True) @ value


def never_returns(query, key, value):
    while True:
        time.sleep(0.01)


def at_random(query, key, value):
    rng = np.random.default_rng()
    return standard(query, key, value) + rng.normal(size=(*query.shape[:-1], value.shape[-1]))
