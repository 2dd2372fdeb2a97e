"""What rows of scores show: by hand, merged, and with honest standard errors."""

import math

import numpy as np
import pytest

from rootdk.attention import entropy_nats, logsumexp, softmax
from rootdk.lab._rows import PER_ROW, RowMeans, rows_shown

EPS = np.finfo(np.float64).eps


def test_they_are_what_the_reference_says(rng: np.random.Generator) -> None:
    scores = 3.0 * rng.standard_normal((50, 7))
    weights = softmax(scores)
    dense = [np.diag(row) - np.outer(row, row) for row in weights]
    expected = {
        "max_weight": weights.max(axis=1),
        "entropy_nats": np.array([entropy_nats(row) for row in weights]),
        "squared_weights": (weights**2).sum(axis=1),
        "jacobian_max": np.array([jacobian.max() for jacobian in dense]),
        "jacobian_squared": np.array([np.linalg.norm(jacobian) ** 2 for jacobian in dense]),
        "log_normaliser": np.array([logsumexp(row) for row in scores]),
        "jacobian_norm": np.array([np.linalg.norm(jacobian) for jacobian in dense]),
    }
    assert list(expected) == list(PER_ROW)
    shown = rows_shown(scores)
    for column, name in enumerate(PER_ROW):
        # sums of seven numbers up to 10, a square root of them for the norm
        np.testing.assert_allclose(shown[:, column], expected[name], atol=100 * EPS, err_msg=name)


def test_a_row_with_one_key_passes_nothing() -> None:
    shown = dict(zip(PER_ROW, rows_shown(np.array([[800.0, 0.0, -900.0]]))[0], strict=True))
    assert shown.pop("log_normaliser") == 800.0
    assert shown == {name: float(name in {"max_weight", "squared_weights"}) for name in shown}


def test_blocks_merge_to_the_whole(rng: np.random.Generator) -> None:
    scores = rng.standard_normal((40, 5))
    (whole,) = RowMeans.of([scores], [2.0], (50,))
    (parts,) = RowMeans.of(np.split(scores, [1, 13, 30]), [2.0], (50,))
    assert parts.rows == whole.rows == 40
    np.testing.assert_allclose(parts.first, whole.first, rtol=40 * EPS)
    np.testing.assert_allclose(parts.second, whole.second, rtol=40 * EPS, atol=40 * EPS)


def test_means_and_standard_errors_are_those_of_the_rows(rng: np.random.Generator) -> None:
    scores = rng.standard_normal((300, 5)) + 2.0
    (means,) = RowMeans.of([scores], [1.5], (50, 90))
    shown = rows_shown(1.5 * scores)
    columns = {name: shown[:, place] for place, name in enumerate(PER_ROW)}
    for name, column in columns.items():
        assert means[name].value == pytest.approx(column.mean(), rel=1e-13)
        error = column.std(ddof=1) / math.sqrt(300)
        assert means[name].standard_error == pytest.approx(error, rel=1e-9)
    assert means.over(50).value == np.mean(columns["max_weight"] > 0.5)
    assert means.spread.value == pytest.approx((1.5 * scores).std(), rel=1e-12)


def test_the_standard_error_of_the_spread_is_how_much_it_moves(rng: np.random.Generator) -> None:
    found = []
    for _ in range(400):
        lengths = rng.gamma(2.0, 1.0, (200, 1))  # rows that go together
        (means,) = RowMeans.of([lengths * rng.standard_normal((200, 6)) + 1.0], [1.0])
        found.append((means.spread.value, means.spread.standard_error))
    values, errors = np.array(found).T
    # 400 of them know their own spread to 4 %
    assert errors.mean() == pytest.approx(values.std(), rel=0.15)


def test_one_row_has_no_standard_error() -> None:
    (means,) = RowMeans.of([np.array([[1.0, 2.0]])], [1.0])
    assert math.isnan(means["max_weight"].standard_error)


def test_several_scales_are_looked_at_together(rng: np.random.Generator) -> None:
    scores = rng.standard_normal((30, 4))
    both = RowMeans.of(iter([scores[:10], scores[10:]]), [1.0, 0.5])
    alone = [RowMeans.of([scores[:10], scores[10:]], [scale])[0] for scale in (1.0, 0.5)]
    for one, other in zip(both, alone, strict=True):
        assert one.second.tobytes() == other.second.tobytes()
