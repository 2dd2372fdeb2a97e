"""Right designs in JAX are resolved without a warning; what is no attention is no site."""

import functools
import math
from typing import Any

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx
from frontends.same.in_keras import keras

import rootdk
from rootdk._lib.errors import ArgumentError
from rootdk.frontends._sites.recording import Recording
from rootdk.records import Diagnosis

BATCH, LENGTH, HEADS, WIDTH = 2, 8, 4, 64
SHAPE = (BATCH, LENGTH, WIDTH)


@pytest.fixture(autouse=True)
def faults_of_the_tracer_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recording, "strict", True)


def arrays(rng: np.random.Generator, *shape: int) -> jax.Array:
    return jnp.asarray(rng.normal(size=shape), jnp.float32)


def parameters(rng: np.random.Generator, **others: tuple[int, ...]) -> dict[str, jax.Array]:
    p = {name: arrays(rng, WIDTH, WIDTH) / math.sqrt(WIDTH) for name in "qkvo"}
    return p | {name: arrays(rng, *shape) for name, shape in others.items()}


def qkv(p: dict[str, jax.Array], x: jax.Array) -> Any:
    return ((x @ p[n]).reshape(*x.shape[:2], HEADS, -1).swapaxes(1, 2) for n in "qkv")


def out(y: jax.Array, p: dict[str, jax.Array]) -> jax.Array:
    return y.swapaxes(1, 2).reshape(y.shape[0], -1, WIDTH) @ p["o"]


def loud(diagnosis: Diagnosis) -> list[str]:
    return [f.code for f in diagnosis.findings if f.severity.reaches("warning")]


def assert_sound(diagnosis: Diagnosis, sites: int = 1) -> None:
    assert [site.unresolved for site in diagnosis.sites] == [None] * sites
    for site in diagnosis.sites:
        assert (site.num_heads, site.head_dim) == (HEADS, WIDTH // HEADS)
        assert site.scale_ratio == pytest.approx(1.0, rel=1e-6)
    assert loud(diagnosis) == []


# -- functions ---------------------------------------------------------------------------------


def softcap(p, x):
    q, k, v = qkv(p, x)
    scores = jnp.tanh(q @ k.mT / 4.0 / 50.0) * 50.0
    return out(jax.nn.softmax(scores) @ v, p)


def linear_bias(p, x):
    q, k, v = qkv(p, x)
    slopes = 2.0 ** (-2.0 * jnp.arange(1, HEADS + 1))
    apart = jnp.arange(LENGTH)[None] - jnp.arange(LENGTH)[:, None]
    scores = q @ k.mT / 4.0 + slopes[:, None, None] * apart
    return out(jax.nn.softmax(jnp.where(apart > 0, -jnp.inf, scores)) @ v, p)


def sink(p, x):
    q, k, v = qkv(p, x)
    column = jnp.broadcast_to(p["sink"][None, :, None, None], (BATCH, HEADS, LENGTH, 1))
    scores = jnp.concatenate([q @ k.mT / 4.0, column], axis=-1)
    return out(jax.nn.softmax(scores)[..., :-1] @ v, p)


def padding(p, x):
    q, k, v = qkv(p, x)
    kept = jnp.arange(LENGTH) < jnp.asarray([LENGTH, 5])[:, None]
    hidden = jnp.where(kept[:, None, None, :], 0.0, jnp.finfo(jnp.float32).min)
    return out(jax.nn.softmax(q @ k.mT / 4.0 + hidden) @ v, p)


def packed(p, x):
    q, k, v = jnp.einsum("btd,sdnh->sbnth", x, p["packed"])
    return out(jax.nn.softmax(jnp.einsum("bnth,bnsh->bnts", q * 0.25, k)) @ v, p)


def cached(p, x):
    q, k, v = ((x @ p[n]).reshape(*x.shape[:2], HEADS, -1) for n in "qkv")
    position = jnp.int32(5)
    keys, values = (
        jax.lax.dynamic_update_slice(p[name], new, (0, position, 0, 0))
        for name, new in (("keys", k), ("values", v))
    )
    seen = jnp.arange(20)[None, None, None] <= position + jnp.arange(LENGTH)[:, None]
    return jax.nn.dot_product_attention(q, keys, values, mask=seen).reshape(SHAPE) @ p["o"]


def learned_queries(p, x):
    latents = jnp.broadcast_to(p["latents"], (BATCH, 5, WIDTH))
    q, _, _ = qkv(p, latents)
    _, k, v = qkv(p, x)
    return out(jax.nn.softmax(q @ k.mT / 4.0) @ v, p)


DESIGNS: dict[Any, dict[str, tuple[int, ...]]] = {
    softcap: {},
    linear_bias: {},
    sink: {"sink": (HEADS,)},
    padding: {},
    packed: {"packed": (3, WIDTH, HEADS, WIDTH // HEADS)},
    cached: dict.fromkeys(("keys", "values"), (BATCH, 20, HEADS, WIDTH // HEADS)),
    learned_queries: {"latents": (5, WIDTH)},
}


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.__name__)
def test_a_design_is_resolved_without_a_warning(design: Any, rng: np.random.Generator) -> None:
    p = parameters(rng, **DESIGNS[design])
    if "packed" in p:
        # Projections keep the size of what they project.
        p["packed"] /= math.sqrt(WIDTH)
    assert_sound(rootdk.check(design, p, arrays(rng, *SHAPE)))


def test_a_softcap_and_its_value(rng: np.random.Generator) -> None:
    (site,) = rootdk.check(softcap, parameters(rng), arrays(rng, *SHAPE)).sites
    assert site.softcap == pytest.approx(50.0)


def test_a_gradient_is_passed_through(rng: np.random.Generator) -> None:
    def function(p, x):
        def loss(p):
            q, k, v = qkv(p, x)
            logits = (x + out(jax.nn.softmax(q @ k.mT / 4.0) @ v, p)) @ p["head"]
            labels = jnp.zeros((BATCH, LENGTH, 1), jnp.int32)
            return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels, axis=-1).mean()

        return jax.value_and_grad(loss)(p)

    p = parameters(rng, head=(WIDTH, 50))
    assert_sound(rootdk.check(function, p, arrays(rng, *SHAPE)))


def router(p, x):
    return jnp.einsum("bte,edf,btd->btf", jax.nn.softmax(x @ p["gate"]), p["experts"], x)


def classifier(p, x):
    return jax.nn.softmax(x @ p["gate"])


@pytest.mark.parametrize("function", [router, classifier])
def test_another_softmax_is_no_attention(function: Any, rng: np.random.Generator) -> None:
    p = {"gate": arrays(rng, WIDTH, 5), "experts": arrays(rng, 5, WIDTH, WIDTH)}
    diagnosis = rootdk.check(function, p, arrays(rng, *SHAPE))
    assert (diagnosis.sites, diagnosis.findings) == ((), ())


# -- modules -----------------------------------------------------------------------------------


class Nnx(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.rngs = rngs
        self.attention = nnx.MultiHeadAttention(
            *(HEADS, WIDTH),
            normalize_qk=True,
            dropout_rate=0.1,
            deterministic=False,
            decode=False,
            rngs=rngs,
        )

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.attention(x, rngs=self.rngs)


class Linen(linen.Module):
    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        layer = linen.MultiHeadDotProductAttention(
            HEADS, normalize_qk=True, dropout_rate=0.1, deterministic=False
        )
        return layer(x, mask=linen.make_causal_mask(x[..., 0]))


def test_norms_and_dropout_of_flax(rng: np.random.Generator) -> None:
    x = arrays(rng, *SHAPE)
    keys = dict(zip(("params", "dropout"), jax.random.split(jax.random.key(0)), strict=True))
    linen_model = Linen()
    variables = linen_model.init(keys, x)
    for diagnosis in (
        rootdk.check(Nnx(nnx.Rngs(0)), x),
        rootdk.check(linen_model, variables, x, rngs=keys),
    ):
        assert_sound(diagnosis)
        (site,) = diagnosis.sites
        assert site.dropout == pytest.approx(0.1, rel=1e-5)
        assert (site.query_path.normalised, site.query_path.learned_gain) == (True, True)


@pytest.mark.parametrize("kind", ["MultiHeadAttention", "GroupQueryAttention"])
@pytest.mark.parametrize("causal", [False, True])
def test_layers_of_keras(kind: str, causal: bool, rng: np.random.Generator) -> None:
    size = (HEADS, WIDTH // HEADS)
    layer = (
        keras.layers.MultiHeadAttention(*size)
        if kind == "MultiHeadAttention"
        else keras.layers.GroupQueryAttention(WIDTH // HEADS, HEADS, 2)
    )
    x = np.asarray(arrays(rng, *SHAPE))
    layer(x, x)
    diagnosis = rootdk.check(layer, x, x, use_causal_mask=causal)
    assert_sound(diagnosis)
    (site,) = diagnosis.sites
    assert site.num_kv_heads == (HEADS if kind == "MultiHeadAttention" else 2)
    assert site.causal == ("top_left" if causal else None)


def test_a_layer_of_keras_is_left_as_it_was(rng: np.random.Generator) -> None:
    layer = keras.layers.MultiHeadAttention(HEADS, WIDTH // HEADS, dropout=0.1, seed=0)
    x = np.asarray(arrays(rng, *SHAPE))
    layer(x, x)
    before = [np.asarray(variable.value) for variable in layer.variables]
    (site,) = rootdk.check(layer, x, x, training=True).sites
    assert site.dropout == pytest.approx(0.1, rel=1e-5)
    for variable, value in zip(layer.variables, before, strict=True):
        np.testing.assert_array_equal(np.asarray(variable.value), value)


def test_a_layer_without_variables_yet_says_so() -> None:
    layer = keras.layers.MultiHeadAttention(HEADS, WIDTH // HEADS)
    with pytest.raises(ArgumentError, match="expected a layer that was built"):
        rootdk.check(layer, np.zeros(SHAPE, np.float32), np.zeros(SHAPE, np.float32))


# -- scales of a projection's own ------------------------------------------------------------------

GAIN = 1 / math.sqrt(WIDTH)


def attend(q: jax.Array, k: jax.Array, v: jax.Array, scale: float) -> jax.Array:
    q, k, v = (y.reshape(*y.shape[:-1], HEADS, -1).swapaxes(-2, -3) for y in (q, k, v))
    heads = jax.nn.softmax(scale * q @ k.mT) @ v
    return heads.swapaxes(-2, -3).reshape(*heads.shape[:-3], LENGTH, WIDTH)


class NnxScaled(nnx.Module):
    """A projection with unit weights and a factor of its own, as muP and equalised layers have."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.weight = nnx.Param(jax.random.normal(rngs.params(), (WIDTH, WIDTH)))

    def __call__(self, x: jax.Array) -> jax.Array:
        return GAIN * (x @ self.weight[...])


class NnxAttention(nnx.Module):
    def __init__(self, rngs: nnx.Rngs, scale: float) -> None:
        self.q, self.k, self.v = (NnxScaled(rngs) for _ in range(3))
        self.scale = scale

    def __call__(self, x: jax.Array) -> jax.Array:
        return attend(self.q(x), self.k(x), self.v(x), self.scale)


class NnxPacked(nnx.Module):
    """Query, key and value of one module, whose query is scaled there for the attention."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.weight = nnx.Param(GAIN * jax.random.normal(rngs.params(), (WIDTH, 3 * WIDTH)))

    def __call__(self, x: jax.Array) -> list[jax.Array]:
        q, k, v = jnp.split(x @ self.weight[...], 3, -1)
        return [q / 4, k, v]


class NnxAround(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.packed = NnxPacked(rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return attend(*self.packed(x), 1.0)


class EqxScaled(equinox.Module):
    weight: jax.Array

    def __call__(self, x: jax.Array) -> jax.Array:
        return GAIN * (self.weight @ x)


class EqxAttention(equinox.Module):
    q: EqxScaled
    k: EqxScaled
    v: EqxScaled
    scale: float

    def __call__(self, x: jax.Array) -> jax.Array:
        q, k, v = (jax.vmap(jax.vmap(part))(x) for part in (self.q, self.k, self.v))
        return attend(q, k, v, self.scale)


class LinenScaled(linen.Module):
    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return GAIN * (x @ self.param("weight", linen.initializers.normal(1.0), (WIDTH, WIDTH)))


class LinenAttention(linen.Module):
    scale: float

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return attend(*(LinenScaled()(x) for _ in range(3)), self.scale)


class KerasScaled(keras.layers.Layer):
    def build(self, shape: Any) -> None:
        self.weight = self.add_weight(shape=(WIDTH, WIDTH), initializer="normal", name="weight")

    def call(self, x: Any) -> Any:
        return GAIN * (x @ self.weight)


class KerasAttention(keras.layers.Layer):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.q, self.k, self.v = (KerasScaled() for _ in range(3))
        self.scale = scale

    def call(self, x: Any) -> Any:
        return attend(self.q(x), self.k(x), self.v(x), self.scale)


def with_own_scales(library: str, scale: float, x: jax.Array) -> Diagnosis:
    key = jax.random.key(0)
    match library:
        case "nnx":
            return rootdk.check(NnxAttention(nnx.Rngs(0), scale), x)
        case "equinox":
            parts = (
                EqxScaled(jax.random.normal(k, (WIDTH, WIDTH))) for k in jax.random.split(key, 3)
            )
            return rootdk.check(EqxAttention(*parts, scale), x)
        case "linen":
            model = LinenAttention(scale)
            return rootdk.check(model, model.init(key, x), x)
    layer = KerasAttention(scale)
    layer(x)
    return rootdk.check(layer, x)


@pytest.mark.parametrize("library", ["nnx", "equinox", "linen", "keras"])
@pytest.mark.parametrize(("scale", "code"), [(0.25, None), (1.0, "RDK101"), (1 / 8, "RDK103")])
def test_a_factor_of_a_projections_own_is_not_attentions(
    library: str, scale: float, code: str | None, rng: np.random.Generator
) -> None:
    diagnosis = with_own_scales(library, scale, arrays(rng, *SHAPE))
    (site,) = diagnosis.sites
    assert site.unresolved is None
    assert site.effective_scale == pytest.approx(scale, rel=1e-6)
    assert site.verification.operands == "equal"
    assert [f.code for f in diagnosis.findings if f.code < "RDK2"] == ([code] if code else [])


def test_a_factor_on_one_of_several_outputs_is_attentions(rng: np.random.Generator) -> None:
    (site,) = rootdk.check(NnxAround(nnx.Rngs(0)), arrays(rng, *SHAPE)).sites
    assert site.effective_scale == pytest.approx(0.25, rel=1e-6)


def test_a_scope_of_the_users_is_no_module(rng: np.random.Generator) -> None:
    def function(p: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        with jax.named_scope("query"):
            q = x @ p["q"] / 4
        with jax.named_scope("key"):
            k = x @ p["k"]
        with jax.named_scope("attention"):
            return attend(q, k, x @ p["v"], 1.0)

    (site,) = rootdk.check(function, parameters(rng), arrays(rng, *SHAPE)).sites
    assert site.effective_scale == pytest.approx(0.25, rel=1e-6)


# -- a softmax over blocks of keys -----------------------------------------------------------------

BLOCK = 4


def block_of(c: Any, q: jax.Array, k: jax.Array, v: jax.Array) -> Any:
    """One block of keys of an online softmax."""
    largest, total, mixed = c
    scores = q @ k.mT / 4
    now = jnp.maximum(largest, scores.max(-1))
    kept, terms = jnp.exp(largest - now), jnp.exp(scores - now[..., None])
    return now, total * kept + terms.sum(-1), mixed * kept[..., None] + terms @ v


def online(p: dict[str, jax.Array], x: jax.Array, *, loop: str) -> jax.Array:
    q, k, v = qkv(p, x)
    carry = jnp.full(q.shape[:-1], -jnp.inf), jnp.zeros(q.shape[:-1]), jnp.zeros_like(q)
    if loop == "scan":
        blocks = [jnp.stack(jnp.split(y, LENGTH // BLOCK, 2)) for y in (k, v)]
        carry, _ = jax.lax.scan(lambda c, b: (block_of(c, q, *b), None), carry, blocks)
    else:

        def body(at: Any, c: Any) -> Any:
            k_b, v_b = (jax.lax.dynamic_slice_in_dim(y, at * BLOCK, BLOCK, 2) for y in (k, v))
            return block_of(c, q, k_b, v_b)

        carry = jax.lax.fori_loop(0, LENGTH // BLOCK, body, carry)
    _, total, mixed = carry
    return out(mixed / total[..., None], p)


@pytest.mark.parametrize("loop", ["scan", "fori"])
def test_a_softmax_over_blocks_is_listed_block_by_block(
    loop: str, rng: np.random.Generator
) -> None:
    diagnosis = rootdk.check(
        functools.partial(online, loop=loop), parameters(rng), arrays(rng, *SHAPE)
    )
    assert not diagnosis.sites
    (listed,) = diagnosis.unhandled
    assert (listed.kind, listed.count) == ("attention", LENGTH // BLOCK)
    assert "not divided by their own sum" in listed.why
    assert "test_jax_designs.py:" in listed.where
    assert not any(f.code.startswith("RDK") for f in diagnosis.findings)


def test_a_division_after_the_values_is_a_softmax_and_no_block(rng: np.random.Generator) -> None:
    def function(p: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        q, k, v = qkv(p, x)
        terms = jnp.exp(q @ k.mT / 4)
        return out((terms @ v) / terms.sum(-1, keepdims=True), p)

    diagnosis = rootdk.check(function, parameters(rng), arrays(rng, *SHAPE))
    assert [site.unresolved for site in diagnosis.sites] == [None]
    assert not diagnosis.unhandled


def test_a_softmax_over_edges_is_listed(rng: np.random.Generator) -> None:
    start, end = (jnp.asarray(rng.integers(0, 20, size=60)) for _ in range(2))

    def function(p: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        q, k, v = (x @ p[n] for n in "qkv")
        terms = jnp.exp((q[end] * k[start]).sum(-1) / math.sqrt(WIDTH))
        weights = terms / jax.ops.segment_sum(terms, end, 20)[end]
        return jax.ops.segment_sum(weights[:, None] * v[start], end, 20)

    diagnosis = rootdk.check(function, parameters(rng), arrays(rng, 20, WIDTH))
    assert not diagnosis.sites
    (listed,) = diagnosis.unhandled
    assert (listed.operation, listed.kind) == ("softmax", "attention")
    assert "groups of rows that an index gives" in listed.why
