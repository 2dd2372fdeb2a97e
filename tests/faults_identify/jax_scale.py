"""Faults of the scale in JAX; its own attention has the layout bshd."""

import jax
import jax.numpy as jnp
from faults_identify.registry import fault


def attend(scores, v):
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, axis=-1), v)


@fault("RDK101", "einsum without a factor")
def einsum_alone(q, k, v):
    return attend(jnp.einsum("bhqd,bhkd->bhqk", q, k), v)


@fault("RDK101", "the library's call told to scale by 1", layout="bshd")
def library_with_one(query, key, value):
    return jax.nn.dot_product_attention(query, key, value, scale=1.0)


@fault("RDK103", "the width of all heads, compiled")
@jax.jit
def compiled_with_all_heads(q, k, v):
    return attend(q @ k.mT / jnp.sqrt(q.shape[1] * q.shape[-1]), v)


@fault("RDK104", "the reciprocal of the width")
def reciprocal_of_width(q, k, v):
    return attend((q @ k.mT) / q.shape[-1], v)


@fault("RDK104", "a scaled query for a call that scales", layout="bshd")
def scaled_before_the_library(query, key, value):
    query = query / jnp.sqrt(query.shape[-1])
    return jax.nn.dot_product_attention(query, key, value)


@fault("RDK105", "the root of the last axis of the scores")
def root_of_last_axis(q, k, v):
    scores = q @ k.mT
    return attend(scores * scores.shape[-1] ** -0.5, v)


@fault("RDK106", "the root on the wrong side of the fraction")
def root_above_the_line(q, k, v):
    return attend(jnp.sqrt(q.shape[-1]) * (q @ k.mT), v)


@fault("RDK107", "heads taken for width")
def heads_taken_for_width(q, k, v):
    return attend((q @ k.mT) * q.shape[-3] ** -0.5, v)


@fault("RDK108", "a scale of a quarter")
def a_quarter(q, k, v):
    return attend(0.25 * (q @ k.mT), v)


@fault("RDK109", "weights times the scale")
def weights_times_scale(q, k, v):
    weights = jax.nn.softmax(q @ k.mT, axis=-1) * q.shape[-1] ** -0.5
    return weights @ v


@fault("RDK110", "sm_scale stays in the signature", layout="bshd")
def sm_scale_unused(q, k, v, sm_scale=None):
    return jax.nn.dot_product_attention(q, k, v)


@fault("RDK111", "later keys are sharper")
def later_keys_sharper(q, k, v):
    scores = q @ k.mT / jnp.sqrt(q.shape[-1])
    return attend(scores * (1.0 + jnp.arange(k.shape[-2]) // 128), v)
