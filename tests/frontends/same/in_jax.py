"""The small transformer for JAX: functions, a scan over blocks, Flax and Equinox modules."""

from typing import Any

import jax
import jax.numpy as jnp
from frontends.same.transformer import Case

__all__ = ["SPELLINGS", "build"]


def plain(q: jax.Array, k: jax.Array, v: jax.Array, case: Case) -> jax.Array:
    fault, size = case.fault, case.size
    q, k, v = (y.swapaxes(1, 2) for y in (q, k, v))
    scores = (q * fault.query(size)) @ k.swapaxes(-1, -2) * fault.scores(size)
    weights = softmax(scores, case) * fault.weights(size)
    return (weights @ v).swapaxes(1, 2)


def einsum(q: jax.Array, k: jax.Array, v: jax.Array, case: Case) -> jax.Array:
    fault, size = case.fault, case.size
    scores = jnp.einsum("bqhd,bkhd->bhqk", q * fault.query(size), k)
    weights = softmax(scores * fault.scores(size), case) * fault.weights(size)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


def mapped(q: jax.Array, k: jax.Array, v: jax.Array, case: Case) -> jax.Array:
    """One head at a time, and JAX puts the heads and the batch back."""
    fault, size = case.fault, case.size

    def head(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        scores = (q * fault.query(size)) @ k.T * fault.scores(size)
        return softmax(scores, case) * fault.weights(size) @ v

    over_heads = jax.vmap(head, in_axes=1, out_axes=1)
    return jax.vmap(over_heads)(q, k, v)


def library(q: jax.Array, k: jax.Array, v: jax.Array, case: Case) -> jax.Array:
    fault, size = case.fault, case.size
    out = jax.nn.dot_product_attention(q * fault.query(size), k, v, scale=fault.scores(size))
    return out * fault.weights(size)


def softmax(scores: jax.Array, case: Case) -> jax.Array:
    fault = case.fault
    if fault.bare:
        powers = jnp.exp(scores)
        return powers / powers.sum(fault.axis, keepdims=True)
    weights = jax.nn.softmax(scores, axis=fault.axis)
    return jax.nn.softmax(weights, axis=fault.axis) if fault.again else weights


SPELLINGS = {"plain": plain, "einsum": einsum, "vmap": mapped, "library": library}


def normalise(x: jax.Array, norm: dict[str, jax.Array]) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    size = jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return centred * size * norm["scale"] + norm["offset"]


def block(p: dict[str, Any], x: jax.Array, case: Case, spelling: str) -> jax.Array:
    size, y = case.size, normalise(x, p["norm"])
    q, k, v = (
        (y @ p[name]).reshape(*y.shape[:2], size.heads, size.head_dim)
        for name in ("query", "key", "value")
    )
    out = SPELLINGS[spelling](q, k, v, case).reshape(x.shape)
    return x + out @ p["output"]


def nested(case: Case, number: int) -> dict[str, Any]:
    arrays = {name: jnp.asarray(array) for name, array in case.block(number).items()}
    norm = {"scale": arrays.pop("norm.scale"), "offset": arrays.pop("norm.offset")}
    return {**arrays, "norm": norm}


def build(case: Case, spelling: str) -> tuple[Any, tuple[Any, ...]]:
    """``spelling`` is that of the attention, and after a dash how the blocks are run."""
    attention, _, blocks = spelling.partition("-")
    parameters = {"blocks": [nested(case, number) for number in range(2)]}

    def one(x: jax.Array, p: dict[str, Any]) -> jax.Array:
        return block(p, x, case, attention)

    def in_turn(parameters: dict[str, Any], x: jax.Array) -> jax.Array:
        for number, p in enumerate(parameters["blocks"]):
            with jax.named_scope(f"blocks.{number}"):
                x = one(x, p)
        return x

    def in_scan(parameters: dict[str, Any], x: jax.Array) -> jax.Array:
        stacked = jax.tree.map(lambda *arrays: jnp.stack(arrays), *parameters["blocks"])
        step = jax.checkpoint(one)
        return jax.lax.scan(lambda x, p: (step(x, p), None), x, stacked)[0]

    function = {"": in_turn, "jit": jax.jit(in_turn), "scan": in_scan}[blocks]
    return function, (parameters, jnp.asarray(case.x))
