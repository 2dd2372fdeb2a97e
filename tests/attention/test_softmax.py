import math

import numpy as np
import pytest
from attention_backends import NUMPY, assert_close, on_every_backend, with_every_dtype
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rootdk._lib.arrays import dtype_name, float_info, to_numpy
from rootdk._lib.errors import ArgumentError, ArrayError, DtypeError
from rootdk.attention import entropy_nats, logsumexp, softmax

INF, NAN = math.inf, math.nan

rows = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=1, max_dims=3, max_side=6),
    elements=st.floats(-50, 50, width=32),
)


@on_every_backend
def test_softmax_of_logarithms_is_their_arguments_over_the_sum(backend):
    x = backend.array(np.log([[1.0, 2.0, 5.0], [1.0, 1.0, 2.0]]))
    # log, exp and the sum each round once, so a few eps.
    assert_close(softmax(x), [[0.125, 0.25, 0.625], [0.25, 0.25, 0.5]], tolerance=8 * backend.eps)
    assert_close(
        softmax(x, axis=0),
        [[0.5, 2 / 3, 5 / 7], [0.5, 1 / 3, 2 / 7]],
        tolerance=8 * backend.eps,
    )


@on_every_backend
def test_logsumexp_of_logarithms_is_the_logarithm_of_the_sum(backend):
    x = backend.array(np.log([[1.0, 2.0, 5.0], [1.0, 1.0, 2.0]]))
    assert_close(logsumexp(x), np.log([8.0, 4.0]), tolerance=8 * backend.eps)
    assert_close(logsumexp(x, axis=0), np.log([2.0, 3.0, 7.0]), tolerance=8 * backend.eps)


@on_every_backend
@pytest.mark.parametrize(
    ("row", "weights", "total"),
    [
        pytest.param([-INF, -INF], [0.0, 0.0], -INF, id="nothing-but-minus-infinity"),
        pytest.param([0.0, -INF], [1.0, 0.0], 0.0, id="one-minus-infinity"),
        pytest.param([INF, 0.0], [NAN, NAN], INF, id="plus-infinity"),
        pytest.param([NAN, 0.0], [NAN, NAN], NAN, id="nan"),
        pytest.param([1e30, -1e30], [1.0, 0.0], 1e30, id="far-apart"),
    ],
)
def test_every_row_has_a_defined_softmax_and_logsumexp(backend, row, weights, total):
    x = backend.array([row])
    assert_close(softmax(x), [weights], tolerance=backend.eps)
    assert_close(logsumexp(x), [total], tolerance=backend.eps)


@on_every_backend
def test_rows_of_no_elements_are_empty(backend):
    x = backend.array(np.zeros((2, 0)))
    assert softmax(x).shape == (2, 0)
    assert_close(logsumexp(x), [-INF, -INF], tolerance=0.0)
    assert_close(entropy_nats(x), [NAN, NAN], tolerance=0.0)


@on_every_backend
def test_entropy_by_hand(backend):
    weights = backend.array(
        [
            [0.25, 0.25, 0.25, 0.25],
            [0.5, 0.5, 0.0, 0.0],
            [0.0, 1.0, 0.0, 0.0],
            [0.5, 0.25, 0.25, 0.0],
            [0.0, 0.0, 0.0, 0.0],
            [NAN, 0.5, 0.5, 0.0],
            [1.5, -0.5, 0.0, 0.0],
        ]
    )
    log2 = math.log(2.0)
    expected = [2 * log2, log2, 0.0, 1.5 * log2, NAN, NAN, NAN]
    assert_close(entropy_nats(weights), expected, tolerance=4 * backend.eps)


def test_the_entropy_of_certainty_is_zero_and_not_minus_zero():
    assert math.copysign(1.0, entropy_nats(np.asarray([0.0, 1.0]))) == 1.0


@with_every_dtype
def test_the_dtype_is_kept_and_half_types_are_computed_in_float32(backend, dtype):
    x = backend.array([[0.1, 2.7, -3.3, 11.0], [5.0, 5.1, 5.2, 5.3]], dtype)
    weights = softmax(x)
    assert dtype_name(weights) == dtype_name(logsumexp(x)) == dtype_name(entropy_nats(x)) == dtype
    if float_info(dtype).bits == 16:
        in_float32 = softmax(to_numpy(x).astype(np.float32))
        rounded = NUMPY.array(in_float32, dtype)
        assert to_numpy(weights).tolist() == to_numpy(rounded).tolist()


@given(rows)
def test_rows_of_softmax_sum_to_one(x):
    # n terms are summed, each with a relative error of a few eps.
    n = x.shape[-1]
    np.testing.assert_allclose(softmax(x).sum(-1), 1.0, rtol=(n + 4) * np.finfo(x.dtype).eps)


@given(rows, st.floats(-100, 100))
def test_a_shift_leaves_softmax_alone_and_moves_logsumexp_by_itself(x, shift):
    # The sum x + shift rounds to eps·(50 + 100) at most, which the exponential passes on.
    tolerance = 4 * 150 * np.finfo(x.dtype).eps
    np.testing.assert_allclose(softmax(x + shift), softmax(x), rtol=tolerance)
    np.testing.assert_allclose(logsumexp(x + shift), logsumexp(x) + shift, atol=tolerance)


@given(rows)
def test_softmax_is_the_exponential_of_what_logsumexp_leaves(x):
    tolerance = 8 * 100 * np.finfo(x.dtype).eps  # the exponent is at most 100 + log 6
    np.testing.assert_allclose(np.exp(x - logsumexp(x)[..., None]), softmax(x), rtol=tolerance)


@given(rows)
def test_entropy_lies_between_certainty_and_the_logarithm_of_the_count(x):
    entropy = entropy_nats(softmax(x))
    slack = 64 * np.finfo(x.dtype).eps
    assert np.all(entropy >= -slack)
    assert np.all(entropy <= math.log(x.shape[-1]) + slack)


@given(rows)
def test_entropy_is_logsumexp_less_the_mean_score(x):
    weights = softmax(x)
    expected = logsumexp(x) - (weights * x).sum(-1)
    # Both terms on the right reach 50 + log 6 and cancel.
    np.testing.assert_allclose(
        entropy_nats(weights), expected, atol=16 * 52 * np.finfo(x.dtype).eps
    )


@pytest.mark.parametrize("function", [softmax, logsumexp, entropy_nats])
def test_what_is_no_float_array_is_refused_by_name(function):
    name = "weights" if function is entropy_nats else "x"
    with pytest.raises(DtypeError) as caught:
        function(np.asarray([1, 2]))
    assert str(caught.value) == (
        f"{name} has dtype int64; expected float16, bfloat16, float32, float64"
    )
    with pytest.raises(ArrayError) as caught:
        function([1.0, 2.0])
    assert str(caught.value) == (
        f"{name} is a list; expected an array of NumPy, torch, JAX or another array API library"
    )
    with pytest.raises(ArgumentError) as caught:
        function(np.zeros((2, 3)), axis=2)
    assert str(caught.value) == f"axis is 2; expected an axis of {name}, which has 2 dimensions"
