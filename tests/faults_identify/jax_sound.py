"""Sound functions in JAX, most of which look wrong."""

import jax
import jax.numpy as jnp
from faults_identify.jax_softmax import scaled
from faults_identify.registry import sound


@sound("the formula, compiled")
@jax.jit
def compiled(q, k, v):
    return jax.nn.softmax(scaled(q, k), axis=-1) @ v


@sound("the library's call", layout="bshd", notes="RDK408", empty_rows="uniform")
def library(query, key, value, bias=None, mask=None, scale=None, is_causal=False):
    return jax.nn.dot_product_attention(
        query, key, value, bias=bias, mask=mask, scale=scale, is_causal=is_causal
    )


@sound("a query scaled once, in the library's layout", layout="bshd")
def einsum_sequence_first(q, k, v):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q * q.shape[-1] ** -0.5, k)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)


@sound("softmax of scores less a constant for each row")
def shifted_rows(q, k, v):
    scores = scaled(q, k)
    return jax.nn.softmax(scores - scores.mean(-1, keepdims=True), axis=-1) @ v


@sound("where= of the softmax, and nothing in empty rows")
def softmax_where(q, k, v, mask=None):
    scores = scaled(q, k)
    if mask is None:
        return jax.nn.softmax(scores, -1) @ v
    some = mask.any(-1, keepdims=True)
    weights = jax.nn.softmax(scores, -1, where=mask | ~some)
    return jnp.where(some, weights, 0.0) @ v


@sound("products kept in float32")
def wide_products(q, k, v):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k, preferred_element_type=jnp.float32)
    weights = jax.nn.softmax(scores / jnp.sqrt(q.shape[-1]), -1)
    return jnp.einsum("bhqk,bhkd->bhqd", weights, v.astype(jnp.float32)).astype(q.dtype)


@sound("groups of heads in one einsum", layout="bshd")
def grouped_einsum(q, k, v):
    batch, queries, heads, head_dim = q.shape
    grouped = q.reshape(batch, queries, k.shape[2], -1, head_dim)
    scores = jnp.einsum("bqkgd,bskd->bkgqs", grouped, k) * head_dim**-0.5
    out = jnp.einsum("bkgqs,bskd->bqkgd", jax.nn.softmax(scores, -1), v)
    return out.reshape(batch, queries, heads, -1)
