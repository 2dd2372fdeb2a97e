"""Further spellings in JAX, written before the first look at what identify says of them."""

import jax
import jax.numpy as jnp
from faults_identify.registry import fault, sound


def weights_of(scores):
    return jax.nn.softmax(scores, axis=-1)


@fault("RDK101", "vmap over batch and heads")
def by_vmap(q, k, v):
    one = lambda q, k, v: weights_of(q @ k.T) @ v  # noqa: E731
    return jax.vmap(jax.vmap(one))(q, k, v)


@fault("RDK103", "the features of all heads", layout="bshd")
def features_of_all(q, k, v):
    depth = q.shape[-1] * q.shape[-2]
    scores = jnp.einsum("...qhd,...khd->...hqk", q / jnp.sqrt(depth), k)
    return jnp.einsum("...hqk,...khd->...qhd", weights_of(scores), v)


@fault("RDK106", "rsqrt where the root divides")
def divided_by_rsqrt(q, k, v):
    return weights_of(q @ k.mT / jax.lax.rsqrt(float(q.shape[-1]))) @ v


@fault("RDK303", "the carry of a scan forgets to rescale")
def scan_forgets(q, k, v, block=32):
    keys = k.shape[-2]
    padded = -(-keys // block) * block
    k, v = (jnp.pad(x, ((0, 0), (0, 0), (0, padded - keys), (0, 0))) for x in (k, v))
    visible = jnp.arange(padded) < keys

    def step(carry, index):
        top, total, out = carry
        part = jax.lax.dynamic_slice_in_dim(k, index * block, block, axis=2)
        values = jax.lax.dynamic_slice_in_dim(v, index * block, block, axis=2)
        seen = jax.lax.dynamic_slice_in_dim(visible, index * block, block)
        scores = jnp.where(seen, q @ part.mT / jnp.sqrt(q.shape[-1]), -1e30)
        new = jnp.maximum(top, scores.max(-1, keepdims=True))
        terms = jnp.exp(scores - new)
        total = total * jnp.exp(top - new) + terms.sum(-1, keepdims=True)
        return (new, total, out + terms @ values), None

    start = (
        jnp.full((*q.shape[:-1], 1), -1e30),
        jnp.zeros((*q.shape[:-1], 1)),
        jnp.zeros((*q.shape[:-1], v.shape[-1])),
    )
    (_, total, out), _ = jax.lax.scan(step, start, jnp.arange(padded // block))
    return out / total


@fault("RDK404", "the mask is inverted for where", layout="bshd")
def inverted_bias(query, key, value, mask=None):
    bias = None if mask is None else jnp.where(mask, -1e30, 0.0)
    return jax.nn.dot_product_attention(query, key, value, bias=bias)


@fault("RDK405", "bias in a query that is scaled", layout="bshd")
def bias_times_scale(query, key, value, bias=None):
    scale = query.shape[-1] ** -0.5
    bias = None if bias is None else bias * scale
    return jax.nn.dot_product_attention(query, key, value, bias=bias, scale=scale)


@fault("RDK110", "the scale is a static argument that nobody reads")
def static_scale(q, k, v, *, scale=None):
    attend = jax.jit(lambda q, k, v: weights_of(q @ k.mT * q.shape[-1] ** -0.5) @ v)
    return attend(q, k, v)


@fault("RDK501", "tiled in one einsum", layout="bshd")
def tiled_einsum(q, k, v):
    batch, queries, heads, head_dim = q.shape
    grouped = q.reshape(batch, queries, -1, k.shape[2], head_dim)
    scores = jnp.einsum("bqgkd,bskd->bgkqs", grouped, k) * head_dim**-0.5
    out = jnp.einsum("bgkqs,bskd->bqgkd", weights_of(scores), v)
    return out.reshape(batch, queries, heads, -1)


@fault("RDK403", "later by one", also="RDK408")
def later_by_one(q, k, v, is_causal=False):
    scores = q @ k.mT / jnp.sqrt(q.shape[-1])
    if is_causal:
        scores = jnp.where(jnp.tri(*scores.shape[-2:], k=1, dtype=bool), scores, -1e30)
    return weights_of(scores) @ v


@sound("a scan that rescales")
def scan_rescales(q, k, v, block=32):
    parts = [
        (k[..., i : i + block, :], v[..., i : i + block, :]) for i in range(0, k.shape[-2], block)
    ]
    top, total, out = -jnp.inf, 0.0, 0.0
    for keys, values in parts:
        scores = q @ keys.mT / jnp.sqrt(q.shape[-1])
        new = jnp.maximum(top, scores.max(-1, keepdims=True))
        terms, keep = jnp.exp(scores - new), jnp.exp(top - new)
        total, out, top = (
            total * keep + terms.sum(-1, keepdims=True),
            out * keep + terms @ values,
            new,
        )
    return out / total


@sound("checkpointed and compiled")
def checkpointed(q, k, v):
    return jax.jit(jax.checkpoint(lambda q, k, v: weights_of(q @ k.mT * q.shape[-1] ** -0.5) @ v))(
        q, k, v
    )
