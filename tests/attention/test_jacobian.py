import math

import numpy as np
import pytest
from attention_backends import assert_close, on_every_backend, with_every_dtype
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rootdk._lib.arrays import dtype_name, float_info, to_numpy
from rootdk._lib.errors import ArgumentError, ArrayError, DtypeError, ShapeError
from rootdk.attention import SoftmaxJacobian, softmax, softmax_jacobian

INF = math.inf
EPS = float_info("float64").eps

score_rows = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 3), st.integers(1, 7)),
    elements=st.floats(-12, 12, width=32),
)


def textbook(weights):
    return np.stack([np.diag(w) - np.outer(w, w) for w in weights])


@on_every_backend
def test_two_keys_by_hand(backend):
    jacobian = softmax_jacobian(backend.array([[0.25, 0.75], [0.5, 0.5]]))
    tolerance = 4 * backend.eps
    assert_close(
        jacobian.dense(),
        [[[0.1875, -0.1875], [-0.1875, 0.1875]], [[0.25, -0.25], [-0.25, 0.25]]],
        tolerance=tolerance,
    )
    assert_close(jacobian.trace, [0.375, 0.5], tolerance=tolerance)
    assert_close(jacobian.frobenius_norm, [0.375, 0.5], tolerance=tolerance)
    assert_close(jacobian.spectral_norm, [0.375, 0.5], tolerance=tolerance)
    assert_close(jacobian.max_entry, [0.1875, 0.25], tolerance=tolerance)
    assert_close(jacobian.complement, [0.25, 0.5], tolerance=tolerance)
    assert_close(jacobian.log_complement, np.log([0.25, 0.5]), tolerance=tolerance)
    assert_close(
        jacobian.matvec(backend.array([1.0, 0.0])),
        [[0.1875, -0.1875], [0.25, -0.25]],
        tolerance=tolerance,
    )


@on_every_backend
def test_equal_weights_by_hand(backend):
    jacobian = softmax_jacobian(backend.array([0.25] * 4))
    tolerance = 4 * backend.eps
    assert_close(jacobian.trace, 0.75, tolerance=tolerance)
    # I/4 − 1/16 everywhere has the eigenvalue 1/4 three times, and 0.
    assert_close(jacobian.spectral_norm, 0.25, tolerance=tolerance)
    assert_close(jacobian.frobenius_norm, math.sqrt(3) / 4, tolerance=tolerance)
    assert_close(jacobian.max_entry, 0.1875, tolerance=tolerance)


@on_every_backend
@pytest.mark.parametrize(
    "row", [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0]], ids=["empty", "one-hot", "single-key"]
)
def test_a_row_that_cannot_move_has_the_zero_matrix(backend, row):
    jacobian = softmax_jacobian(backend.array(row))
    for number in (
        jacobian.trace,
        jacobian.frobenius_norm,
        jacobian.spectral_norm,
        jacobian.max_entry,
        jacobian.complement,
    ):
        assert_close(number, 0.0, tolerance=0.0)
    assert_close(jacobian.log_complement, -INF, tolerance=0.0)
    assert_close(jacobian.dense(), np.zeros((len(row), len(row))), tolerance=0.0)


@on_every_backend
def test_rows_of_nothing_but_minus_infinity_and_of_one_visible_key_cannot_move(backend):
    jacobian = SoftmaxJacobian.from_scores(backend.array([[-INF, -INF], [-INF, 3.0]]))
    assert_close(jacobian.trace, [0.0, 0.0], tolerance=0.0)
    assert_close(jacobian.spectral_norm, [0.0, 0.0], tolerance=0.0)
    assert_close(jacobian.log_complement, [-INF, -INF], tolerance=0.0)


@on_every_backend
@pytest.mark.parametrize("gap", [1.0, 10.0, 17.5, 40.0, 80.0])
@pytest.mark.parametrize("made", ["from_weights", "from_scores"])
def test_nothing_is_lost_where_one_weight_is_close_to_one(backend, gap, made):
    """One key leads four equal ones by the gap: every number has a closed form."""
    scores = np.asarray([0.0, -gap, -gap, -gap, -gap])
    total = 1 + 4 * math.exp(-gap)
    lead, other = 1 / total, math.exp(-gap) / total
    rest = 4 * other
    expected = {
        "complement": rest,
        "max_entry": lead * rest,
        "trace": lead * rest + rest * (1 - other),
        "spectral_norm": lead * (rest + other),
        "frobenius_norm": math.sqrt((lead * (rest + other)) ** 2 + 3 * other**2),
        "log_complement": math.log(rest),
    }
    rows = backend.array(scores)
    jacobian = getattr(SoftmaxJacobian, made)(softmax(rows) if made == "from_weights" else rows)
    for name, value in expected.items():
        # Relative, at any size: exp passes on an error of eps in each of a few steps.
        ratio = float(to_numpy(getattr(jacobian, name))) / value
        assert abs(ratio - 1) <= 32 * backend.eps, name


@on_every_backend
def test_scores_keep_the_logarithm_of_what_weights_cannot_hold(backend):
    jacobian = SoftmaxJacobian.from_scores(backend.array([5.0, -2995.0, -2995.0]))
    assert_close(jacobian.complement, 0.0, tolerance=0.0)
    assert_close(jacobian.log_complement, -3000.0 + math.log(2.0), tolerance=4 * backend.eps)


@with_every_dtype
def test_half_weights_are_taken_to_float32(backend, dtype):
    jacobian = softmax_jacobian(backend.array([0.25, 0.75], dtype))
    computed_in = "float32" if float_info(dtype).bits == 16 else dtype
    assert dtype_name(jacobian.trace) == computed_in
    assert_close(jacobian.trace, 0.375, tolerance=4 * float_info(computed_in).eps)


@given(score_rows)
def test_everything_agrees_with_the_matrix(scores):
    weights = softmax(scores)
    matrix = textbook(weights)
    # The textbook form subtracts from 1: it is only good to a few eps, absolutely.
    tolerance = 64 * EPS
    for jacobian in (softmax_jacobian(weights), SoftmaxJacobian.from_scores(scores)):
        assert_close(jacobian.dense(), matrix, tolerance=tolerance)
        assert_close(jacobian.trace, np.trace(matrix, axis1=1, axis2=2), tolerance=tolerance)
        assert_close(
            jacobian.frobenius_norm, np.linalg.norm(matrix, axis=(1, 2)), tolerance=tolerance
        )
        assert_close(jacobian.spectral_norm, np.linalg.eigvalsh(matrix)[:, -1], tolerance=tolerance)
        assert_close(jacobian.max_entry, np.abs(matrix).max(axis=(1, 2)), tolerance=tolerance)


@given(score_rows, st.integers(0, 2**32 - 1))
def test_matvec_is_the_matrix_times_the_vector(scores, bits):
    jacobian = SoftmaxJacobian.from_scores(scores)
    v = np.random.default_rng(bits).standard_normal(scores.shape)
    expected = np.einsum("rij,rj->ri", jacobian.dense(), v)
    assert_close(jacobian.matvec(v), expected, tolerance=64 * EPS)


@given(score_rows)
def test_a_constant_moves_nothing(scores):
    assert not np.any(SoftmaxJacobian.from_scores(scores).matvec(np.full(scores.shape, 3.0)))


@given(score_rows)
def test_the_norms_keep_their_order_and_bounds(scores):
    jacobian = SoftmaxJacobian.from_scores(scores)
    slack = 1 + 8 * EPS
    assert np.all(jacobian.max_entry <= jacobian.spectral_norm * slack)
    assert np.all(jacobian.spectral_norm <= jacobian.frobenius_norm * slack)
    assert np.all(jacobian.frobenius_norm <= jacobian.trace * slack)
    assert np.all(jacobian.spectral_norm <= 0.5 * slack)
    assert np.all(jacobian.max_entry <= 0.25 * slack)
    assert np.all(jacobian.trace <= 1 - 1 / scores.shape[-1] + 8 * EPS)


def test_matvec_is_the_derivative_of_softmax(rng):
    scores, v = rng.standard_normal((2, 6))
    step = 2.0**-17  # the central difference errs by step², and by eps/step
    difference = (softmax(scores + step * v) - softmax(scores - step * v)) / (2 * step)
    assert_close(softmax_jacobian(softmax(scores)).matvec(v), difference, tolerance=1e-9)


def test_large_matrices_are_refused():
    jacobian = softmax_jacobian(np.full(1025, 1 / 1025))
    with pytest.raises(ArgumentError) as caught:
        jacobian.dense()
    assert str(caught.value) == (
        "rows have 1025 keys; expected at most max_keys, 1024, for a matrix of keys × keys each "
        "(matvec, trace and the norms need none)"
    )
    assert jacobian.dense(max_keys=1025).shape == (1025, 1025)


def test_its_repr_shows_shape_and_dtype():
    assert repr(softmax_jacobian(np.ones((2, 3, 1)))) == "SoftmaxJacobian((2, 3, 1, 1) float64)"


@pytest.mark.parametrize(
    ("weights", "kind", "message"),
    [
        pytest.param(
            np.asarray(1.0),
            ShapeError,
            "weights has shape (); expected (..., keys), keys at least 1",
            id="no-dimension",
        ),
        pytest.param(
            np.zeros((3, 0)),
            ShapeError,
            "weights has shape (3, 0); expected (..., keys), keys at least 1",
            id="no-keys",
        ),
        pytest.param(
            np.asarray([1]),
            DtypeError,
            "weights has dtype int64; expected float16, bfloat16, float32, float64",
            id="integers",
        ),
        pytest.param(
            [1.0],
            ArrayError,
            "weights is a list; expected an array of NumPy, torch, JAX or another array API "
            "library",
            id="list",
        ),
    ],
)
def test_what_holds_no_rows_is_refused(weights, kind, message):
    with pytest.raises(kind) as caught:
        softmax_jacobian(weights)
    assert str(caught.value) == message


def test_a_vector_of_another_length_is_refused():
    with pytest.raises(ShapeError, match="dimension 0 of v \\(keys\\) has size 3; expected 2"):
        softmax_jacobian(np.asarray([0.5, 0.5])).matvec(np.zeros(3))
