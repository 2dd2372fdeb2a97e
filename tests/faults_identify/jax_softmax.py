"""Faults of the softmax in JAX."""

import jax
import jax.numpy as jnp
from faults_identify.registry import fault


def scaled(q, k):
    return q @ k.mT / jnp.sqrt(q.shape[-1]).astype(q.dtype)


@fault("RDK301", "over the queries")
def second_axis_from_the_end(q, k, v):
    return jax.nn.softmax(scaled(q, k), axis=-2) @ v


@fault("RDK302", "exponentials as they are")
def exponentials_as_they_are(q, k, v):
    terms = jnp.exp(scaled(q, k))
    return terms / terms.sum(-1, keepdims=True) @ v


@fault("RDK303", "rectified scores")
def rectified(q, k, v):
    scores = jax.nn.relu(scaled(q, k))
    return scores @ v


@fault("RDK303", "a share for nobody, the same in every row", also="RDK109")
def ninety_per_cent(q, k, v):
    weights = jax.nn.softmax(scaled(q, k), axis=-1)
    return weights / (weights.sum(-1, keepdims=True) + 1 / k.shape[-2]) @ v


@fault("RDK305", "softmax of softmax")
def softmax_of_softmax(q, k, v):
    return jax.nn.softmax(jax.nn.softmax(scaled(q, k), -1), -1) @ v


@fault("RDK306", "the cap stays in the signature")
def unused_cap(q, k, v, *, logits_soft_cap=None):
    return jax.nn.softmax(scaled(q, k), -1) @ v


@fault("RDK307", "products in float16")
def products_in_half(q, k, v):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / jnp.sqrt(q.shape[-1]).astype(q.dtype)
    return jax.nn.softmax(scores.astype(jnp.float32), -1).astype(v.dtype) @ v
