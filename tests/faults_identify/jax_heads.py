"""Faults of heads, and of arguments that change nothing, in JAX."""

import jax
import jax.numpy as jnp
from faults_identify.jax_softmax import scaled
from faults_identify.registry import fault


@fault("RDK501", "heads are concatenated until there are enough")
def concatenated(q, k, v):
    times = q.shape[1] // k.shape[1]
    k, v = (jnp.concatenate([x] * times, axis=1) for x in (k, v))
    return jax.nn.softmax(scaled(q, k), -1) @ v


@fault("RDK502", "a library call in the wrong layout")
def wrong_layout_for_library(query, key, value):
    return jax.nn.dot_product_attention(query, key, value)


@fault("RDK708", "sinks are taken and left")
def sinks_left(q, k, v, sinks=None):
    return jax.nn.softmax(scaled(q, k), -1) @ v
