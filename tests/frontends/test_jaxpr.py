"""Functions of JAX: what is passed through, what is found, and where it is said to be."""

import functools
import math
from typing import Any

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

import rootdk
from rootdk._lib.errors import ArgumentError
from rootdk.frontends import trace
from rootdk.frontends._sites.recording import Recording
from rootdk.frontends.jaxpr import Jaxpr
from rootdk.records import AttentionSite, Diagnosis

BATCH, LENGTH, HEADS, HEAD_DIM = 2, 9, 4, 16
WIDTH = HEADS * HEAD_DIM
Parameters = dict[str, jax.Array]


@pytest.fixture(autouse=True)
def faults_of_the_tracer_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recording, "strict", True)


@pytest.fixture
def p(rng: np.random.Generator) -> Parameters:
    return {name: weight(rng, WIDTH) for name in ("q", "k", "v", "o")}


@pytest.fixture
def x(rng: np.random.Generator) -> jax.Array:
    return jnp.asarray(rng.normal(size=(BATCH, LENGTH, WIDTH)), jnp.float32)


def weight(rng: np.random.Generator, width: int) -> jax.Array:
    return jnp.asarray(rng.normal(size=(WIDTH, width)) / math.sqrt(WIDTH), jnp.float32)


def heads(y: jax.Array, count: int = HEADS) -> jax.Array:
    """(batch, tokens, heads, head_dim)."""
    return y.reshape(*y.shape[:-1], count, -1)


def qkv(p: Parameters, x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(batch, heads, tokens, head_dim)."""
    q, k, v = (heads(x @ p[name]).swapaxes(1, 2) for name in ("q", "k", "v"))
    return q, k, v


def joined(out: jax.Array, p: Parameters) -> jax.Array:
    return out.swapaxes(1, 2).reshape(out.shape[0], -1, WIDTH) @ p["o"]


def attention(p: Parameters, x: jax.Array, **options: Any) -> jax.Array:
    q, k, v = (heads(x @ p[name]) for name in ("q", "k", "v"))
    out = jax.nn.dot_product_attention(q, k, v, **options)
    return out.reshape(x.shape) @ p["o"]


def plain(p: Parameters, x: jax.Array) -> jax.Array:
    q, k, v = qkv(p, x)
    weights = jax.nn.softmax(q @ k.swapaxes(-1, -2) / math.sqrt(HEAD_DIM), axis=-1)
    return joined(weights @ v, p)


def one_site(diagnosis: Diagnosis) -> AttentionSite:
    (site,) = diagnosis.sites
    return site


def assert_ordinary(site: AttentionSite) -> None:
    assert site.unresolved is None
    assert site.verification.operands == "equal"
    assert (site.batch, site.num_heads, site.num_kv_heads) == (BATCH, HEADS, HEADS)
    assert (site.queries, site.keys) == (LENGTH, LENGTH)
    assert (site.head_dim, site.value_dim, site.hidden) == (HEAD_DIM, HEAD_DIM, WIDTH)
    assert site.effective_scale == pytest.approx(HEAD_DIM**-0.5, rel=1e-6)


# -- what is passed through --------------------------------------------------------------------


def compiled(p: Parameters, x: jax.Array) -> jax.Array:
    return jax.jit(attention)(p, x)


def recomputed(p: Parameters, x: jax.Array) -> jax.Array:
    return jax.checkpoint(attention)(p, x)


def chosen(p: Parameters, x: jax.Array) -> jax.Array:
    return jax.lax.cond(x[0, 0, 0] > -1e9, lambda: attention(p, x), lambda: x)


def mapped(p: Parameters, x: jax.Array) -> jax.Array:
    """One example and one head at a time."""

    def head(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return jax.nn.softmax(q @ k.T / jnp.sqrt(q.shape[-1])) @ v

    def example(x: jax.Array) -> jax.Array:
        q, k, v = (heads(x @ p[name]) for name in ("q", "k", "v"))
        return jax.vmap(head, in_axes=1, out_axes=1)(q, k, v).reshape(x.shape) @ p["o"]

    return jax.vmap(example)(x)


@jax.custom_vjp
def with_own_gradient(p: Parameters, x: jax.Array) -> jax.Array:
    return attention(p, x)


with_own_gradient.defvjp(lambda p, x: (attention(p, x), None), lambda _, g: (None, None))


@jax.custom_jvp
def with_own_tangent(p: Parameters, x: jax.Array) -> jax.Array:
    return attention(p, x)


with_own_tangent.defjvp(lambda primals, tangents: (attention(*primals), tangents[1]))


def the_gradient(p: Parameters, x: jax.Array) -> Any:
    return jax.grad(lambda p: attention(p, x).sum())(p)


def with_logsumexp(p: Parameters, x: jax.Array) -> jax.Array:
    q, k, v = qkv(p, x)
    scores = q @ k.swapaxes(-1, -2) * HEAD_DIM**-0.5
    return joined(jnp.exp(scores - jax.nn.logsumexp(scores, -1, keepdims=True)) @ v, p)


def with_log_softmax(p: Parameters, x: jax.Array) -> jax.Array:
    q, k, v = qkv(p, x)
    scores = q @ k.swapaxes(-1, -2) * HEAD_DIM**-0.5
    return joined(jnp.exp(jax.nn.log_softmax(scores)) @ v, p)


def with_rotary(p: Parameters, x: jax.Array) -> jax.Array:
    angle = jnp.arange(LENGTH)[:, None] / 10000 ** (jnp.arange(HEAD_DIM // 2) / HEAD_DIM * 2)
    cos, sin = jnp.cos(angle)[None, :, None], jnp.sin(angle)[None, :, None]

    def turned(y: jax.Array) -> jax.Array:
        one, two = jnp.split(y, 2, axis=-1)
        return jnp.concatenate([one * cos - two * sin, two * cos + one * sin], axis=-1)

    q, k, v = (heads(x @ p[name]) for name in ("q", "k", "v"))
    out = jax.nn.dot_product_attention(turned(q), turned(k), v)
    return out.reshape(x.shape) @ p["o"]


@pytest.mark.parametrize(
    "function",
    [
        attention,
        plain,
        pytest.param(jax.jit(attention), id="jit"),
        compiled,
        recomputed,
        chosen,
        mapped,
        with_own_gradient,
        with_own_tangent,
        the_gradient,
        with_logsumexp,
        with_log_softmax,
        with_rotary,
    ],
    ids=lambda function: function.__name__,
)
def test_a_right_attention_is_one_ordinary_site(function: Any, p: Parameters, x: jax.Array) -> None:
    diagnosis = rootdk.check(function, p, x)
    assert_ordinary(one_site(diagnosis))
    assert [f for f in diagnosis.findings if f.severity.reaches("warning")] == []
    assert set(diagnosis.summaries) == {one_site(diagnosis).name}


@pytest.mark.parametrize("how", ["scan", "reversed scan", "fori", "while"])
def test_every_iteration_is_a_call_of_its_own(how: str, p: Parameters, x: jax.Array) -> None:
    def step(x: jax.Array, p: Parameters) -> jax.Array:
        return x + attention(p, x)

    def looped(p: Parameters, x: jax.Array) -> jax.Array:
        if "scan" in how:
            three = jax.tree.map(lambda array: jnp.stack([array] * 3), p)
            body = jax.checkpoint(lambda x, p: (step(x, p), None))
            return jax.lax.scan(body, x, three, reverse="reversed" in how)[0]
        if how == "fori":
            return jax.lax.fori_loop(0, 3, lambda i, x: step(x, p), x)
        return jax.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, step(s[1], p)), (0, x))[
            1
        ]

    sites = rootdk.check(looped, p, x).sites
    assert [site.call_index for site in sites] == [0, 1, 2]
    for site in sites:
        assert_ordinary(site)


def test_what_a_scan_stacks_can_be_attended(p: Parameters, x: jax.Array) -> None:
    def function(p: Parameters, x: jax.Array) -> jax.Array:
        _, queries = jax.lax.scan(lambda c, row: (c, row @ p["q"] * 0.5), 0, x.swapaxes(0, 1))
        q = heads(queries.swapaxes(0, 1)).swapaxes(1, 2)
        _, k, v = qkv(p, x)
        return joined(jax.nn.softmax(q @ k.swapaxes(-1, -2) * 0.5) @ v, p)

    site = one_site(rootdk.check(function, p, x))
    assert site.unresolved is None
    assert site.effective_scale == pytest.approx(0.25, rel=1e-6)


# -- grouped queries, masks, dtypes, dropout ---------------------------------------------------


def grouped(p: Parameters, x: jax.Array) -> jax.Array:
    q, k, v = heads(x @ p["q"]), heads(x @ p["k"], 2), heads(x @ p["v"], 2)
    return jax.nn.dot_product_attention(q, k, v).reshape(x.shape) @ p["o"]


def grouped_einsum(p: Parameters, x: jax.Array) -> jax.Array:
    q = heads(x @ p["q"]).reshape(BATCH, LENGTH, 2, 2, HEAD_DIM)
    k, v = heads(x @ p["k"], 2), heads(x @ p["v"], 2)
    weights = jax.nn.softmax(jnp.einsum("bqkgd,bskd->bkgqs", q, k) / math.sqrt(HEAD_DIM))
    return jnp.einsum("bkgqs,bskd->bqkgd", weights, v).reshape(x.shape) @ p["o"]


def grouped_turned(p: Parameters, x: jax.Array) -> jax.Array:
    """The key comes first, and the softmax runs over another axis."""
    q = heads(x @ p["q"]).reshape(BATCH, LENGTH, 2, 2, HEAD_DIM)
    k, v = heads(x @ p["k"], 2), heads(x @ p["v"], 2)
    scores = jnp.einsum("bskd,bqkgd->bkgqs", k, q)
    weights = jax.nn.softmax(scores / math.sqrt(HEAD_DIM), axis=-1)
    return jnp.einsum("bkgqs,bskd->bqkgd", weights, v).reshape(x.shape) @ p["o"]


@pytest.mark.parametrize("function", [grouped, grouped_einsum, grouped_turned])
def test_heads_that_share_a_key_are_heads(
    function: Any, p: Parameters, x: jax.Array, rng: np.random.Generator
) -> None:
    p |= {"k": weight(rng, WIDTH // 2), "v": weight(rng, WIDTH // 2)}
    diagnosis, site = rootdk.check(function, p, x), one_site(rootdk.check(function, p, x))
    assert site.unresolved is None
    shape = (site.batch, site.num_heads, site.num_kv_heads, site.queries, site.keys)
    assert shape == (BATCH, HEADS, 2, LENGTH, LENGTH)
    repeated = p | {
        name: jnp.repeat(p[name].reshape(WIDTH, 2, HEAD_DIM), 2, axis=1).reshape(WIDTH, WIDTH)
        for name in ("k", "v")
    }
    expected = rootdk.check(plain, repeated, x).summaries["plain"]
    found = diagnosis.summaries[site.name]
    for name in ("spread", "entropy_nats", "query_std", "value_std"):
        # The products are summed in another order: some tens of float32 roundings.
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, err_msg=name)


def test_one_key_for_all_heads(p: Parameters, x: jax.Array, rng: np.random.Generator) -> None:
    def function(p: Parameters, x: jax.Array) -> jax.Array:
        q, k, v = heads(x @ p["q"]), x @ p["k"], x @ p["v"]
        weights = jax.nn.softmax(jnp.einsum("bqhd,bsd->bhqs", q, k) / math.sqrt(HEAD_DIM))
        return jnp.einsum("bhqs,bsd->bqhd", weights, v).reshape(x.shape) @ p["o"]

    p |= {"k": weight(rng, HEAD_DIM), "v": weight(rng, HEAD_DIM)}
    site = one_site(rootdk.check(function, p, x))
    assert site.unresolved is None
    assert (site.num_heads, site.num_kv_heads, site.queries) == (HEADS, 1, LENGTH)


def test_queries_without_a_projection(rng: np.random.Generator) -> None:
    q = jnp.asarray(rng.normal(size=(BATCH, LENGTH, HEADS, HEAD_DIM)), jnp.float32)
    k, v = jnp.asarray(rng.normal(size=(2, BATCH, 7, 2, HEAD_DIM)), jnp.float32)
    site = one_site(rootdk.check(jax.nn.dot_product_attention, q, k, v))
    shape = (site.batch, site.num_heads, site.num_kv_heads, site.queries, site.keys)
    assert (site.unresolved, shape) == (None, (BATCH, HEADS, 2, LENGTH, 7))


def test_a_causal_mask_is_seen(p: Parameters, x: jax.Array) -> None:
    site = one_site(rootdk.check(functools.partial(attention, is_causal=True), p, x))
    assert site.causal == "top_left"
    assert [addend.kind for addend in site.addends] == ["mask"]


def test_a_bias_is_seen(p: Parameters, x: jax.Array, rng: np.random.Generator) -> None:
    bias = jnp.asarray(rng.normal(size=(1, HEADS, LENGTH, LENGTH)), jnp.float32)
    site = one_site(rootdk.check(lambda p, x, bias: attention(p, x, bias=bias), p, x, bias))
    assert site.unresolved is None
    assert [addend.kind for addend in site.addends] == ["bias"]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_verified_too(dtype: str, p: Parameters, x: jax.Array) -> None:
    p, x = jax.tree.map(lambda array: array.astype(dtype), (p, x))
    site = one_site(rootdk.check(attention, p, x))
    assert_ordinary(site)
    # The library accumulates its products in float32.
    assert site.score_dtype == "float32"
    assert one_site(rootdk.check(plain, p, x)).score_dtype == dtype


@pytest.mark.parametrize("key", [jax.random.key, jax.random.PRNGKey])
@pytest.mark.parametrize("how", ["where", "multiplied"])
def test_dropout_is_no_mask_and_no_factor(key: Any, how: str, p: Parameters, x: jax.Array) -> None:
    def function(p: Parameters, x: jax.Array, key: Any) -> jax.Array:
        q, k, v = qkv(p, x)
        weights = jax.nn.softmax(q @ k.swapaxes(-1, -2) * HEAD_DIM**-0.5)
        keep = jax.random.bernoulli(key, 0.9, weights.shape)
        if how == "where":
            weights = jnp.where(keep, weights / 0.9, 0.0)
        else:
            weights = weights * (keep.astype(weights.dtype) / 0.9)
        return joined(weights @ v, p)

    diagnosis = rootdk.check(function, p, x, key(0))
    assert_ordinary(one_site(diagnosis))
    assert one_site(diagnosis).dropout == pytest.approx(0.1, rel=1e-5)
    assert [f.code for f in diagnosis.findings if f.severity.reaches("warning")] == []


# -- never silently wrong ----------------------------------------------------------------------


def round_trip(q: jax.Array) -> jax.Array:
    shape = jax.ShapeDtypeStruct(q.shape, q.dtype)
    return jax.pure_callback(lambda array: np.asarray(array) * np.float32(3.0), shape, q)


def per_channel(q: jax.Array) -> jax.Array:
    return q * jnp.linspace(1.0, 3.0, HEAD_DIM)


def in_part(q: jax.Array) -> jax.Array:
    return q.at[..., :3].multiply(2.0)


@pytest.mark.parametrize("change", [round_trip, per_channel, in_part])
def test_what_hides_a_factor_makes_the_site_unresolved(
    change: Any, p: Parameters, x: jax.Array
) -> None:
    def function(p: Parameters, x: jax.Array) -> jax.Array:
        q, k, v = qkv(p, x)
        return joined(jax.nn.softmax(change(q) @ k.swapaxes(-1, -2) * 0.25) @ v, p)

    diagnosis = rootdk.check(function, p, x)
    assert one_site(diagnosis).unresolved is not None
    assert not diagnosis.findings


def test_a_callback_is_listed(p: Parameters, x: jax.Array) -> None:
    diagnosis = rootdk.check(lambda p, x: round_trip(x @ p["q"]), p, x)
    assert [item.operation for item in diagnosis.unhandled] == ["pure_callback"]


def test_talking_heads_are_unresolved(
    p: Parameters, x: jax.Array, rng: np.random.Generator
) -> None:
    p["mix"] = jnp.asarray(rng.normal(size=(HEADS, HEADS)), jnp.float32)

    def function(p: Parameters, x: jax.Array) -> jax.Array:
        q, k, v = qkv(p, x)
        scores = jnp.einsum("bhqk,hg->bgqk", q @ k.swapaxes(-1, -2) * 0.25, p["mix"])
        return joined(jax.nn.softmax(scores) @ v, p)

    assert one_site(rootdk.check(function, p, x)).unresolved is not None


def test_a_tensor_added_to_itself_is_a_factor_of_two(p: Parameters, x: jax.Array) -> None:
    def function(p: Parameters, x: jax.Array) -> jax.Array:
        q, k, v = qkv(p, x)
        return joined(jax.nn.softmax((q + q) @ k.swapaxes(-1, -2) * 0.25) @ v, p)

    site = one_site(rootdk.check(function, p, x))
    assert site.unresolved is not None or site.effective_scale == pytest.approx(0.5)


def test_a_computed_root_is_a_constant(p: Parameters, x: jax.Array) -> None:
    def function(p: Parameters, x: jax.Array) -> jax.Array:
        q, k, v = qkv(p, x)
        root = jnp.sqrt(jnp.asarray(q.shape[-1], jnp.float32))
        return joined(jax.nn.softmax(q @ k.swapaxes(-1, -2) / root) @ v, p)

    assert_ordinary(one_site(rootdk.check(function, p, x)))


def test_a_sharded_map_is_listed(p: Parameters, x: jax.Array) -> None:
    mesh = jax.make_mesh((1,), ("batch",))
    function = jax.shard_map(attention, mesh=mesh, out_specs=jax.sharding.PartitionSpec())
    diagnosis = rootdk.check(function, p, x)
    assert diagnosis.sites == ()
    assert [(item.operation, item.count) for item in diagnosis.unhandled] == [("shard_map", 1)]


# -- where it is -------------------------------------------------------------------------------


def test_the_line_is_the_users(p: Parameters, x: jax.Array) -> None:
    site = one_site(rootdk.check(jax.jit(plain), p, x))
    (factor,) = site.factors
    assert factor.source is not None
    assert "math.sqrt(HEAD_DIM)" in factor.source.text
    assert site.source.frames[0].function == "plain"


def test_a_function_that_was_compiled_before_says_who_calls_it_now(
    p: Parameters, x: jax.Array
) -> None:
    inner = jax.jit(plain)
    inner(p, x)

    def first(p: Parameters, x: jax.Array) -> jax.Array:
        return inner(p, x)

    def second(p: Parameters, x: jax.Array) -> jax.Array:
        return inner(p, x)

    for caller in (first, second):
        frames = one_site(rootdk.check(caller, p, x)).source.frames
        assert [frame.function.rpartition(".")[2] for frame in frames] == ["plain", caller.__name__]


class NnxBlock(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.norm = nnx.LayerNorm(WIDTH, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(HEADS, WIDTH, decode=False, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return x + self.attention(self.norm(x))


class NnxModel(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.blocks = nnx.List([NnxBlock(rngs) for _ in range(2)])

    def __call__(self, x: jax.Array) -> jax.Array:
        for block in self.blocks:
            x = block(x)
        return x


class LinenBlock(linen.Module):
    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        y = linen.LayerNorm()(x)
        return x + linen.MultiHeadDotProductAttention(HEADS, name="attention")(y)


class LinenModel(linen.Module):
    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for number in range(2):
            x = LinenBlock(name=f"blocks.{number}")(x)
        return x


class EquinoxBlock(equinox.Module):
    norm: equinox.nn.LayerNorm
    attention: equinox.nn.MultiheadAttention

    def __init__(self, key: jax.Array) -> None:
        self.norm = equinox.nn.LayerNorm(WIDTH)
        self.attention = equinox.nn.MultiheadAttention(HEADS, WIDTH, key=key)

    def __call__(self, x: jax.Array) -> jax.Array:
        y = jax.vmap(self.norm)(x)
        return x + self.attention(y, y, y)


class EquinoxModel(equinox.Module):
    blocks: list[EquinoxBlock]

    def __init__(self, key: jax.Array) -> None:
        self.blocks = [EquinoxBlock(key) for key in jax.random.split(key, 2)]

    def __call__(self, x: jax.Array) -> jax.Array:
        for block in self.blocks:
            x = block(x)
        return x


def library_models(x: jax.Array) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    flax, eqx = NnxModel(nnx.Rngs(0)), EquinoxModel(jax.random.key(0))
    model = LinenModel()
    variables = model.init(jax.random.key(0), x)
    return {
        "nnx": (flax, (x,)),
        "nnx in a function": (lambda model, x: model(x), (flax, x)),
        "nnx compiled": (nnx.jit(lambda model, x: model(x)), (flax, x)),
        "linen": (model, (variables, x)),
        "linen apply": (model.apply, (variables, x)),
        "equinox": (eqx, (x[0],)),
        "equinox mapped": (jax.vmap(eqx), (x,)),
        "equinox compiled": (equinox.filter_jit(eqx), (x[0],)),
    }


@pytest.mark.parametrize(
    "library",
    [
        *("nnx", "nnx in a function", "nnx compiled", "linen", "linen apply"),
        *("equinox", "equinox mapped", "equinox compiled"),
    ],
)
def test_modules_have_their_paths(library: str, x: jax.Array) -> None:
    model, args = library_models(x)[library]
    diagnosis = rootdk.check(model, *args)
    names = ["blocks.0.attention", "blocks.1.attention"]
    assert [site.name for site in diagnosis.sites] == names
    assert [site.layer for site in diagnosis.sites] == [0, 1]
    for site in diagnosis.sites:
        assert site.unresolved is None
        assert site.effective_scale == pytest.approx(HEAD_DIM**-0.5, rel=1e-6)
    assert [f.code for f in diagnosis.findings if f.severity.reaches("warning")] == []
    known = library not in {"equinox mapped", "equinox compiled"}
    assert diagnosis.state == ("init" if known else "unknown")


def test_classes_are_left_as_they_were(x: jax.Array) -> None:
    before = (NnxBlock.__dict__["__call__"], EquinoxBlock.__dict__["__call__"])
    for model, args in library_models(x).values():
        rootdk.check(model, *args)
    assert (NnxBlock.__dict__["__call__"], EquinoxBlock.__dict__["__call__"]) == before


def test_a_trained_norm_says_so(x: jax.Array) -> None:
    model = NnxModel(nnx.Rngs(0))
    model.blocks[0].norm.scale[...] = jnp.linspace(0.5, 1.5, WIDTH)
    diagnosis = rootdk.check(model, x)
    assert diagnosis.state == "trained"
    assert "norm.scale" in diagnosis.state_reason


# -- which functions -------------------------------------------------------------------------


def test_numpy_arrays_will_do_where_the_function_is_known(p: Parameters, x: jax.Array) -> None:
    on_host = {name: np.asarray(array) for name, array in p.items()}
    assert_ordinary(one_site(rootdk.check(jax.jit(attention), on_host, np.asarray(x))))


def test_a_plain_function_of_numpy_arrays_is_not_taken_for_one_of_jax(x: jax.Array) -> None:
    with pytest.raises(ArgumentError, match=r"no frontend accepts; expected one of: .*JAX"):
        rootdk.check(lambda x: x, np.asarray(x))


@pytest.mark.parametrize("args", [(), (1.0,), ([np.zeros(3)],)], ids=["none", "number", "numpy"])
def test_arguments_decide(args: tuple[Any, ...]) -> None:
    assert not Jaxpr().accepts(lambda *args: args, args)
    assert Jaxpr().accepts(lambda *args: args, (*args, {"a": jnp.zeros(3)}))


def test_bare_arrays_are_parameters_beside_an_input_of_higher_rank(
    p: Parameters, x: jax.Array
) -> None:
    def function(q: jax.Array, k: jax.Array, v: jax.Array, x: jax.Array) -> jax.Array:
        return plain({"q": q, "k": k, "v": v, "o": jnp.eye(WIDTH)}, x)

    assert_ordinary(one_site(rootdk.check(function, p["q"], p["k"], p["v"], x)))


def test_what_a_function_closes_over_is_a_parameter(p: Parameters, x: jax.Array) -> None:
    assert_ordinary(one_site(rootdk.check(lambda x: plain(p, x), x)))


def test_what_the_function_raises_is_passed_on(x: jax.Array) -> None:
    def function(x: jax.Array) -> jax.Array:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        rootdk.check(function, x)


def test_without_statistics_nothing_is_measured(p: Parameters, x: jax.Array) -> None:
    assert trace(attention, (p, x), statistics=False).summaries == {}
