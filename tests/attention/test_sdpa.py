import math

import jax
import numpy as np
import pytest
import torch
from attention_backends import (
    JAX,
    NUMPY,
    TORCH,
    assert_close,
    on_every_backend,
    with_every_dtype,
)
from hypothesis import given
from hypothesis import strategies as st

from rootdk._lib.arrays import dtype_name, float_info, to_numpy
from rootdk.attention import attention, logsumexp, softmax, visibility

INF, NAN = math.inf, math.nan


def same_scores(backend, queries, keys, heads=()):
    """A query of zeros, so that every visible key has the same weight; values count up."""
    query = backend.array(np.zeros((*heads, queries, 2)))
    key = backend.array(np.ones((*heads, keys, 2)))
    value = backend.array(np.broadcast_to(np.arange(float(keys))[:, None], (*heads, keys, 1)))
    return query, key, value


@on_every_backend
def test_every_stage_by_hand(backend):
    query = backend.array([[1.0, 1.0, 1.0, 1.0]])
    key = backend.array([[1.0, 1.0, 1.0, 1.0], [2.0, 2.0, 2.0, 2.0], [-1.0, -1.0, -1.0, -1.0]])
    value = backend.array([[1.0, 0.0], [0.0, 1.0], [9.0, 9.0]])
    stages = attention(
        query,
        key,
        value,
        softcap=3.0,
        bias=backend.array([[0.5, 0.0, 0.0]]),
        mask=backend.array(np.asarray([[True, True, False]])),
        return_stages=True,
    )
    capped = [3 * math.tanh(2 / 3), 3 * math.tanh(4 / 3)]
    odds = math.exp(capped[1] - (capped[0] + 0.5))
    weights = [1 / (1 + odds), odds / (1 + odds)]
    tolerance = 16 * backend.eps  # a handful of roundings at values below 8
    assert stages.scale == 0.5
    assert_close(stages.raw, [[4.0, 8.0, -4.0]], tolerance=0.0)
    assert_close(stages.scaled, [[2.0, 4.0, -2.0]], tolerance=0.0)
    assert_close(stages.softcapped, [[*capped, -capped[0]]], tolerance=tolerance)
    assert_close(stages.biased, [[capped[0] + 0.5, capped[1], -INF]], tolerance=tolerance)
    assert to_numpy(stages.visible).tolist() == [[True, True, False]]
    assert_close(stages.weights, [[*weights, 0.0]], tolerance=tolerance)
    assert_close(stages.output, [weights], tolerance=tolerance)


@on_every_backend
def test_the_default_scale_is_one_over_the_root_of_head_dim(backend):
    query, key = backend.array(np.ones((1, 16))), backend.array([[1.0] * 16, [0.0] * 16])
    weight = attention(query, key, backend.array([[1.0], [0.0]]))
    assert_close(weight, [[1 / (1 + math.exp(-4.0))]], tolerance=8 * backend.eps)


@on_every_backend
def test_query_heads_share_kv_heads_in_runs(backend):
    query, key, _ = same_scores(backend, 1, 3, heads=(2, 6))
    kv_head = np.arange(3.0)[None, :, None, None] * np.ones((2, 1, 3, 4))
    output = attention(query, key[:, :3, :, :], backend.array(kv_head))
    expected = np.asarray([0.0, 0.0, 1.0, 1.0, 2.0, 2.0])[None, :, None, None] * np.ones(
        (2, 1, 1, 4)
    )
    assert_close(output, expected, tolerance=4 * backend.eps)


@on_every_backend
@pytest.mark.parametrize(
    ("options", "means"),
    [
        pytest.param({}, [1.5, 1.5], id="all-keys"),
        pytest.param({"causal": "top_left"}, [0.0, 0.5], id="top-left"),
        pytest.param({"causal": "bottom_right"}, [1.0, 1.5], id="bottom-right"),
        pytest.param({"window": (0, 1)}, [0.5, 1.5], id="window"),
        pytest.param({"causal": "bottom_right", "window": (1, 0)}, [1.5, 2.5], id="both"),
    ],
)
def test_equal_scores_give_the_mean_of_the_visible_values(backend, options, means):
    output = attention(*same_scores(backend, 2, 4), **options)
    assert_close(output, [[mean] for mean in means], tolerance=8 * backend.eps)


@on_every_backend
def test_an_empty_row_has_weights_and_output_zero(backend):
    query, key, value = same_scores(backend, 4, 2)
    stages = attention(query, key, value + 1.0, causal="bottom_right", return_stages=True)
    assert_close(
        stages.weights, [[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.5, 0.5]], tolerance=backend.eps
    )
    assert_close(stages.output, [[0.0], [0.0], [1.0], [1.5]], tolerance=4 * backend.eps)
    assert_close(logsumexp(stages.biased)[:2,], [-INF, -INF], tolerance=0.0)


@on_every_backend
def test_no_keys_make_every_row_empty(backend):
    output = attention(*same_scores(backend, 3, 0))
    assert_close(output, np.zeros((3, 1)), tolerance=0.0)


@on_every_backend
@pytest.mark.parametrize("poison", [NAN, INF, -INF])
def test_a_forbidden_key_moves_nothing_whatever_it_holds(backend, poison):
    query, key, value = (np.ones((2, 2)), np.ones((3, 2)), np.arange(6.0).reshape(3, 2))
    mask = np.asarray([[True, True, False]])
    clean = attention(query[:, :], key[:2], value[:2])
    key[2] = poison
    query, key, value = map(backend.array, (query, key, value))
    masked = attention(query, key, value, mask=backend.array(mask))
    biased = attention(query, key, value, bias=backend.array(np.where(mask, 0.0, -INF)))
    assert_close(masked, clean, tolerance=8 * backend.eps)
    assert_close(biased, clean, tolerance=8 * backend.eps)


@on_every_backend
def test_nan_in_a_forbidden_value_reaches_all_but_empty_rows(backend):
    query, key, _ = same_scores(backend, 3, 2)
    value = backend.array([[1.0], [NAN]])
    output = attention(query, key, value, causal="bottom_right")
    assert_close(output, [[0.0], [NAN], [NAN]], tolerance=0.0)


@on_every_backend
def test_a_visible_infinity_is_not_hidden(backend):
    query, key = backend.array([[INF, 1.0]]), backend.array([[1.0, 1.0], [-1.0, 1.0]])
    stages = attention(query, key, backend.array([[1.0], [1.0]]), return_stages=True)
    assert_close(stages.raw, [[INF, -INF]], tolerance=0.0)
    assert_close(stages.output, [[NAN]], tolerance=0.0)


@on_every_backend
def test_softcap_comes_before_the_mask(backend):
    query, key, value = same_scores(backend, 2, 3)
    options = {"causal": "top_left", "softcap": 1.0}
    assert_close(attention(query, key, value, **options)[0, :], [0.0], tolerance=0.0)


@with_every_dtype
def test_output_has_the_dtype_of_the_query_and_half_types_are_computed_in_float32(
    backend, dtype, rng
):
    arrays = [backend.array(rng.standard_normal((2, 4, 5, 8)), dtype) for _ in range(3)]
    stages = attention(*arrays, causal="top_left", return_stages=True)
    half = float_info(dtype).bits == 16
    assert dtype_name(stages.output) == dtype
    assert dtype_name(stages.weights) == ("float32" if half else dtype)
    if half:
        float32 = attention(*(NUMPY.array(to_numpy(a), "float32") for a in arrays),
                            causal="top_left")  # fmt: skip
        # Both compute in float32, and round once at the end.
        assert_close(stages.output, float32, tolerance=float_info(dtype).eps)


@on_every_backend
def test_batch_and_heads_may_be_absent(backend, rng):
    query, key, value = (rng.standard_normal((2, 3, n, d)) for n, d in ((4, 8), (5, 8), (5, 2)))
    whole = to_numpy(attention(*map(backend.array, (query, key, value))))
    assert whole.shape == (2, 3, 4, 2)
    by_batch = attention(*(backend.array(a[1]) for a in (query, key, value)))
    by_head = attention(*(backend.array(a[1, 2]) for a in (query, key, value)))
    assert_close(by_batch, whole[1], tolerance=16 * backend.eps)
    assert_close(by_head, whole[1, 2], tolerance=16 * backend.eps)


@on_every_backend
@pytest.mark.parametrize(
    "shape", [(5,), (1, 5), (4, 5), (3, 4, 5), (3, 1, 1), (2, 1, 4, 5), (2, 3, 1, 5)], ids=str
)
def test_mask_and_bias_broadcast_to_the_scores(backend, shape, rng):
    query, key, value = (rng.standard_normal((2, 3, n, 8)) for n in (4, 5, 5))
    arrays = [backend.array(a) for a in (query, key, value)]
    mask, bias = rng.random(shape) < 0.7, rng.standard_normal(shape)
    whole = {
        "mask": np.broadcast_to(mask, (2, 3, 4, 5)),
        "bias": np.broadcast_to(bias, (2, 3, 4, 5)),
    }
    given_small = attention(*arrays, mask=backend.array(mask), bias=backend.array(bias))
    given_whole = attention(*arrays, **{name: backend.array(a) for name, a in whole.items()})
    assert_close(given_small, given_whole, tolerance=0.0)


# ---------------------------------------------------------------- laws


@st.composite
def calls(draw):
    """A random call: query, key, value of a random layout, in float64."""
    batch, kv_heads, shared = (
        draw(st.integers(1, 2)),
        draw(st.integers(1, 3)),
        draw(st.integers(1, 3)),
    )
    queries, keys = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    head_dim, value_dim = draw(st.sampled_from([1, 4, 8])), draw(st.sampled_from([1, 3]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return (
        rng.standard_normal((batch, kv_heads * shared, queries, head_dim)),
        rng.standard_normal((batch, kv_heads, keys, head_dim)),
        rng.standard_normal((batch, kv_heads, keys, value_dim)),
    )


EPS = float_info("float64").eps
# Scores of standard normal entries at head_dim 8 stay below 10: an error of eps·10 in each
# is an error of eps·10 in each weight, and sums of five.
CLOSE = 200 * EPS


@given(calls(), st.floats(-50, 50))
def test_a_constant_added_to_a_row_changes_nothing(call, constant):
    bias = np.full((1, 1), constant)
    assert_close(attention(*call, bias=bias), attention(*call), tolerance=CLOSE * 10)


@given(calls())
def test_shared_heads_equal_repeated_heads(call):
    query, key, value = call
    times = query.shape[1] // key.shape[1]
    repeated = (np.repeat(key, times, axis=1), np.repeat(value, times, axis=1))
    assert_close(attention(*call), attention(query, *repeated), tolerance=0.0)


@given(
    calls(),
    st.sampled_from([None, "top_left", "bottom_right"]),
    st.tuples(st.none() | st.integers(0, 4), st.none() | st.integers(0, 4)),
)
def test_causal_order_and_window_equal_the_explicit_mask_and_bias(call, causal, window):
    query, key, _ = call
    mask = visibility(query.shape[2], key.shape[2], causal=causal, window=window, xp=np)
    direct = attention(*call, causal=causal, window=window)
    assert_close(attention(*call, mask=mask), direct, tolerance=0.0)
    assert_close(attention(*call, bias=np.where(mask, 0.0, -INF)), direct, tolerance=0.0)


@given(calls(), st.randoms(use_true_random=False))
def test_the_order_of_the_keys_does_not_matter(call, random):
    query, key, value = call
    order = random.sample(range(key.shape[2]), key.shape[2])
    assert_close(
        attention(query, key[:, :, order], value[:, :, order]), attention(*call), tolerance=CLOSE
    )


@given(calls())
def test_a_far_softcap_is_the_identity(call):
    # tanh(x) = x(1 − x²/3 + …) with x below 100/1e8.
    assert_close(attention(*call, softcap=1e8), attention(*call), tolerance=1e-10)


@given(calls(), st.floats(0.1, 10.0))
def test_softcapped_scores_stay_within_the_cap(call, softcap):
    stages = attention(*call, softcap=softcap, return_stages=True)
    assert np.all(np.abs(stages.softcapped) <= softcap * (1 + EPS))


@given(calls(), st.floats(-3.0, 3.0))
def test_the_scale_may_as_well_be_applied_to_the_query(call, scale):
    query, key, value = call
    assert_close(
        attention(query * scale, key, value, scale=1.0),
        attention(query, key, value, scale=scale),
        tolerance=CLOSE * 10,
    )


@given(calls())
def test_the_output_lies_among_the_values(call):
    output, value = attention(*call), call[2]
    heads = np.repeat(value, output.shape[1] // value.shape[1], axis=1)
    assert np.all(output <= heads.max(axis=2, keepdims=True) + CLOSE)
    assert np.all(output >= heads.min(axis=2, keepdims=True) - CLOSE)


@given(calls())
def test_stages_follow_from_each_other(call):
    stages = attention(*call, causal="bottom_right", return_stages=True)
    assert_close(stages.scaled, stages.raw * stages.scale, tolerance=0.0)
    assert_close(stages.weights, softmax(stages.biased), tolerance=0.0)
    assert np.all((stages.weights == 0.0) | stages.visible)
    assert_close(stages.output, attention(*call, causal="bottom_right"), tolerance=0.0)


# ---------------------------------------------------------------- against torch


@pytest.mark.parametrize("shared", [1, 2], ids=["own-heads", "shared-heads"])
@pytest.mark.parametrize("scale", [None, 0.3], ids=["default-scale", "given-scale"])
@pytest.mark.parametrize("term", ["none", "mask", "bias", "causal"])
def test_torch_agrees_in_float64(shared, scale, term, rng):
    query = torch.tensor(rng.standard_normal((2, 2 * shared, 6, 8)))
    key, value = (torch.tensor(rng.standard_normal((2, 2, 7, d))) for d in (8, 5))
    mask = torch.tensor(rng.random((2, 1, 6, 7)) < 0.6)
    mask[..., 0] = True  # torch leaves empty rows undefined
    bias = torch.tensor(rng.standard_normal((6, 7)))
    theirs, ours = {
        "none": ({}, {}),
        "mask": ({"attn_mask": mask}, {"mask": mask}),
        "bias": ({"attn_mask": bias}, {"bias": bias}),
        "causal": ({"is_causal": True}, {"causal": "top_left"}),
    }[term]
    expected = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, scale=scale, enable_gqa=shared > 1, **theirs
    )
    assert_close(attention(query, key, value, scale=scale, **ours), expected, tolerance=CLOSE)


def test_gradients_pass_through_as_through_torch(rng):
    arrays = [torch.tensor(rng.standard_normal((1, 2, 5, 4)), requires_grad=True) for _ in range(3)]
    ours = torch.autograd.grad(attention(*arrays, causal="top_left").square().sum(), arrays)
    theirs = torch.autograd.grad(
        torch.nn.functional.scaled_dot_product_attention(*arrays, is_causal=True).square().sum(),
        arrays,
    )
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, tolerance=10 * CLOSE)


def test_jax_can_compile_it(rng):
    arrays = [JAX.array(rng.standard_normal((1, 2, 5, 4))) for _ in range(3)]

    def call(query, key, value):
        return attention(query, key, value, causal="top_left", softcap=5.0)

    assert_close(jax.jit(call)(*arrays), call(*arrays), tolerance=32 * JAX.eps)


def test_arguments_are_left_as_they_were(rng):
    arrays = [TORCH.array(rng.standard_normal((2, 5, 4))) for _ in range(3)]
    before = [a.clone() for a in arrays]
    attention(*arrays, causal="top_left", softcap=5.0, bias=arrays[0][:, :, :1])
    assert all(torch.equal(a, b) for a, b in zip(arrays, before, strict=True))
