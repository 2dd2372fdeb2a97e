"""Faults of masks in JAX."""

import jax
import jax.numpy as jnp
from faults_identify.jax_softmax import scaled
from faults_identify.registry import fault

LOW = -1e30


@fault("RDK401", "minus infinity")
def minus_infinity(q, k, v, mask=None):
    scores = scaled(q, k)
    if mask is not None:
        scores = jnp.where(mask, scores, -jnp.inf)
    return jax.nn.softmax(scores, -1) @ v


@fault("RDK402", "the mask minus one, times ten", also="RDK408")
def mask_minus_one(q, k, v, mask=None):
    scores = scaled(q, k)
    if mask is not None:
        scores = scores + 10.0 * (mask.astype(scores.dtype) - 1.0)
    return jax.nn.softmax(scores, -1) @ v


@fault("RDK403", "starts one key late", also="RDK408")
def starts_late(q, k, v, is_causal=False):
    scores = scaled(q, k)
    if is_causal:
        later = jnp.arange(k.shape[-2])[None, :] >= jnp.arange(q.shape[-2])[:, None]
        scores = jnp.where(later, LOW, scores)
    return jax.nn.softmax(scores, -1) @ v


@fault("RDK404", "the branches of where are exchanged", also="RDK408")
def branches_exchanged(q, k, v, mask=None):
    scores = scaled(q, k)
    if mask is not None:
        scores = jnp.where(mask, LOW, scores)
    return jax.nn.softmax(scores, -1) @ v


@fault("RDK405", "bias inside the brackets")
def bias_inside_brackets(q, k, v, bias=None):
    scores = q @ k.mT
    if bias is not None:
        scores = scores + bias
    return jax.nn.softmax(scores * q.shape[-1] ** -0.5, -1) @ v


@fault("RDK406", "where around the weights")
def where_around_weights(q, k, v, mask=None):
    weights = jax.nn.softmax(scaled(q, k), -1)
    if mask is not None:
        weights = jnp.where(mask, weights, 0.0)
    return weights @ v


@fault("RDK406", "the values are masked instead of the scores")
def values_masked(q, k, v, key_mask=None):
    if key_mask is not None:
        v = jnp.where(key_mask[:, None, :, None], v, 0.0)
    return jax.nn.softmax(scaled(q, k), -1) @ v


@fault("RDK407", "a library call without the mask", layout="bshd")
def mask_not_handed_on(query, key, value, mask=None, is_causal=False):
    return jax.nn.dot_product_attention(query, key, value, is_causal=is_causal)


@fault("RDK409", "inclusive on both sides of a count")
def inclusive_count(q, k, v, sliding_window=None):
    scores = scaled(q, k)
    if sliding_window is not None:
        behind = jnp.arange(q.shape[-2])[:, None] - jnp.arange(k.shape[-2])[None, :]
        scores = jnp.where((behind >= 0) & (behind <= sliding_window), scores, LOW)
    return jax.nn.softmax(scores, -1) @ v
