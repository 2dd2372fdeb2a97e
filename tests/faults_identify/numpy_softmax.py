"""Faults of the softmax in NumPy."""

import numpy as np
from faults_identify.numpy_scale import products, weights_of
from faults_identify.registry import fault


def scaled(q, k):
    return products(q, k) / np.sqrt(q.shape[-1])


@fault("RDK301", "over the queries")
def over_queries(q, k, v):
    scores = scaled(q, k)
    terms = np.exp(scores - scores.max(axis=-2, keepdims=True))
    return terms / terms.sum(axis=-2, keepdims=True) @ v


@fault("RDK301", "over the heads, as axis 1 of four")
def over_heads(q, k, v):
    scores = scaled(q, k)
    terms = np.exp(scores - scores.max(axis=1, keepdims=True))
    return terms / terms.sum(axis=1, keepdims=True) @ v


@fault("RDK301", "over queries and keys at once")
def over_everything(q, k, v):
    scores = scaled(q, k)
    terms = np.exp(scores - scores.max(axis=(-2, -1), keepdims=True))
    return terms / terms.sum(axis=(-2, -1), keepdims=True) @ v


@fault("RDK302", "a bare exponential")
def bare_exponential(q, k, v):
    terms = np.exp(scaled(q, k))
    return terms / terms.sum(axis=-1, keepdims=True) @ v


@fault("RDK302", "a bare exponential, block by block")
def bare_exponential_in_blocks(q, k, v, block=64):
    total, out = 0.0, 0.0
    for start in range(0, k.shape[-2], block):
        terms = np.exp(scaled(q, k[..., start : start + block, :]))
        total = total + terms.sum(axis=-1, keepdims=True)
        out = out + terms @ v[..., start : start + block, :]
    return out / total


@fault("RDK302", "one maximum for all rows")
def one_maximum_for_all(q, k, v):
    scores = scaled(q, k)
    terms = np.exp(scores - scores.max())
    return terms / terms.sum(axis=-1, keepdims=True) @ v


@fault("RDK303", "the sum is forgotten")
def never_divided(q, k, v):
    scores = scaled(q, k)
    return np.exp(scores - scores.max(axis=-1, keepdims=True)) @ v


@fault("RDK303", "divided by the number of keys")
def divided_by_count(q, k, v):
    scores = scaled(q, k)
    return np.exp(scores - scores.max(axis=-1, keepdims=True)) / k.shape[-2] @ v


@fault("RDK303", "one is added to a sum of shifted terms")
def one_added_after_the_shift(q, k, v):
    scores = scaled(q, k)
    terms = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return terms / (1.0 + terms.sum(axis=-1, keepdims=True)) @ v


@fault("RDK303", "an epsilon as large as a term")
def large_epsilon(q, k, v):
    scores = scaled(q, k)
    terms = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return terms / (terms.sum(axis=-1, keepdims=True) + 0.1) @ v


@fault("RDK303", "no softmax at all")
def linear_attention(q, k, v):
    return scaled(q, k) @ v


@fault("RDK303", "the last block is left out of the sum")
def last_block_not_counted(q, k, v, block=64):
    scores = scaled(q, k)
    terms = np.exp(scores - scores.max(axis=-1, keepdims=True))
    counted = max(block, (k.shape[-2] - 1) // block * block)
    return terms / terms[..., :counted].sum(axis=-1, keepdims=True) @ v


@fault("RDK303", "the output so far is not rescaled when the maximum moves")
def output_not_rescaled(q, k, v, block=64):
    top = np.full((*q.shape[:-1], 1), -np.inf)
    total, out = np.zeros_like(top), np.zeros((*q.shape[:-1], v.shape[-1]))
    for start in range(0, k.shape[-2], block):
        scores = scaled(q, k[..., start : start + block, :])
        new = np.maximum(top, scores.max(axis=-1, keepdims=True))
        terms = np.exp(scores - new)
        total = total * np.exp(top - new) + terms.sum(axis=-1, keepdims=True)
        out = out + terms @ v[..., start : start + block, :]
        top = new
    return out / total


@fault("RDK305", "the weights go through the softmax again")
def twice(q, k, v):
    return weights_of(weights_of(scaled(q, k))) @ v


@fault("RDK306", "a cap that is taken and not applied")
def cap_ignored(q, k, v, softcap=None):
    return weights_of(scaled(q, k)) @ v


@fault("RDK306", "the cap is never multiplied back")
def cap_not_multiplied_back(q, k, v, softcap=0.0):
    scores = scaled(q, k)
    if softcap:
        scores = np.tanh(scores / softcap)
    return weights_of(scores) @ v


@fault("RDK306", "capped before the scale")
def cap_before_scale(q, k, v, logits_soft_cap=None):
    scores = products(q, k)
    if logits_soft_cap is not None:
        scores = logits_soft_cap * np.tanh(scores / logits_soft_cap)
    return weights_of(scores / np.sqrt(q.shape[-1])) @ v


@fault("RDK307", "a hyperbolic tangent of exponentials")
def tanh_by_exponentials(q, k, v, softcap=50.0):
    u = scaled(q, k) / softcap
    with np.errstate(over="ignore", invalid="ignore"):
        bounded = (np.exp(u) - np.exp(-u)) / (np.exp(u) + np.exp(-u))
    return weights_of(softcap * bounded) @ v
