"""Statistics and quantities on numbers that can be checked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rootdk import measure
from rootdk._lib.errors import DiscoveryError
from rootdk.stats import quantity as quantity_module
from rootdk.stats.quantity import Quantity, quantities
from rootdk.stats.statistics._moments import Moments, merge_moments, moments_of_groups
from rootdk.stats.statistics.query_entries import QueryEntries
from rootdk.stats.statistics.row_samples import RowSamples

ENGINES = ["reference", "blocked"]


def measured(*rows: list[float], engine: str, **arguments: object) -> object:
    """Measure rows of given scores: one-hot queries pick them from the keys."""
    scores = np.asarray(rows, dtype=np.float64)
    return measure(np.eye(len(scores)), scores.T.copy(), scale=1.0, engine=engine, **arguments)


@pytest.mark.parametrize("engine", ENGINES)
def test_scores_of_two_rows(engine: str) -> None:
    summary = measured([1.0, 3.0], [5.0, 7.0], engine=engine)
    assert_allclose(summary["score_mean"], [4.0])
    assert_allclose(summary["spread"], [np.sqrt(5.0)])
    assert_allclose(summary["row_spread"], [1.0])
    assert_allclose((summary["min_score"], summary["max_score"]), [[1.0], [7.0]])
    # In each row one score is a standard deviation below the mean, and one above.
    assert np.flatnonzero(summary["score_histogram"][0]).tolist() == [28, 36]


@pytest.mark.parametrize("engine", ENGINES)
def test_weights_of_a_quarter_and_three_quarters(engine: str) -> None:
    summary = measured([0.0, np.log(3.0)], engine=engine)
    entropy = np.log(4) - 0.75 * np.log(3)
    expected = {
        "logsumexp": np.log(4.0),
        "entropy_nats": entropy,
        "entropy_share": entropy / np.log(2),
        "effective_keys": np.exp(entropy),
        "effective_keys_2": 1.0 / (1 / 16 + 9 / 16),
        "max_weight": 0.75,
        "rows_over_50": 1.0,
        "rows_over_90": 0.0,
        "first_key_weight": 0.25,
        "jacobian_max": 3 / 16,
        "jacobian_trace": 6 / 16,
        "jacobian_norm": 2 * 3 / 16,
    }
    for name, number in expected.items():
        assert_allclose(summary[name], [number], err_msg=name)
    assert_allclose(summary["sample_rows"][0][0], [0.75, 0.25])


@pytest.mark.parametrize("engine", ENGINES)
def test_even_weights_are_as_many_keys_as_there_are(engine: str) -> None:
    summary = measured([2.0] * 5, engine=engine)
    for name in ("effective_keys", "effective_keys_2"):
        assert_allclose(summary[name], [5.0])
    assert_allclose(summary["entropy_share"], [1.0])
    assert summary["score_histogram"].sum() == 0, "a flat row has no shape"


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_that_could_not_be_otherwise_are_counted_apart(engine: str) -> None:
    mask = np.asarray([[False, False], [True, False], [True, True]])
    summary = measured([9.0, 9.0], [4.0, 0.0], [0.0, np.log(3.0)], engine=engine, mask=mask)
    counts = {"rows": 3, "empty_rows": 1, "single_key_rows": 1, "visible_scores": 3}
    for name, number in counts.items():
        assert summary[name].tolist() == [number], name
    assert_allclose(summary["max_weight"], [0.75])
    assert_allclose(summary["rows_over_99"], [0.0])
    assert_allclose(summary["logsumexp"], [(4.0 + np.log(4.0)) / 2])
    assert len(summary["sample_rows"][0]) == 2


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("gap", [20.0, 40.0, 200.0])
def test_what_the_largest_weight_leaves_survives_it(gap: float, engine: str) -> None:
    """1 − w is kept where w itself rounds to 1."""
    left = np.exp(-gap)
    summary = measured([0.0, gap], engine=engine)
    assert_allclose(summary["jacobian_max"], [left], rtol=1e-8)
    assert_allclose(summary["jacobian_trace"], [2 * left], rtol=1e-8)
    assert_allclose(summary["jacobian_norm"], [2 * left], rtol=1e-8)


def test_headroom_is_of_the_dtype_of_the_scores() -> None:
    summary = measured([-4.0, 2.0], engine="blocked", score_dtype="float16")
    assert_allclose(summary["headroom"], [65504 / 4])
    assert measured([0.0, 0.0], engine="blocked")["headroom"].tolist() == [np.inf]


def test_entries_of_a_projection() -> None:
    query, key = np.asarray([[3.0, 5.0]]), np.asarray([[0.0, 2.0], [4.0, 2.0]])
    value, inputs = np.asarray([[1.0], [3.0]]), np.asarray([0.5, -0.5])
    summary = measure(query, key, value, scale=-2.0, inputs=inputs)
    expected = {
        "query_mean": 4.0,
        "query_std": 1.0,
        "query_rms": np.sqrt(17.0),
        "key_mean": 2.0,
        "key_std": np.sqrt(2.0),
        "key_rms": np.sqrt(6.0),
        "value_std": 1.0,
        "input_rms": 0.5,
        "projection_gain": 2.0,
        "predicted_spread": 2.0 * np.sqrt(2.0) * np.sqrt(2.0),
    }
    for name, number in expected.items():
        assert_allclose(summary[name], [number], err_msg=name)


def test_query_heads_have_the_entries_of_their_key_head(rng: np.random.Generator) -> None:
    query, key = rng.normal(size=(4, 3, 8)), rng.normal(size=(2, 5, 8))
    key[1] *= 10.0
    stds = measure(query, key)["key_std"]
    assert stds[0] == stds[1]
    assert stds[2] == stds[3]
    assert stds[2] > 5 * stds[0]


def test_the_implied_scale_is_the_scale_of_independent_entries(rng: np.random.Generator) -> None:
    query, key = rng.normal(size=(1, 400, 64)), 3.0 * rng.normal(size=(1, 400, 64))
    assert_allclose(measure(query, key, scale=0.3)["implied_scale"], [0.3], rtol=0.05)


def test_moments_lose_no_digits_to_a_large_mean() -> None:
    values = 1e9 + np.asarray([0.0, 1.0, 2.0, 3.0])
    parts = [(np.asarray([1]), np.asarray([value]), np.zeros(1)) for value in values]
    count, mean, m2 = parts[0]
    for part in parts[1:]:
        count, mean, m2 = merge_moments((count, part[0]), (mean, part[1]), (m2, part[2]))
    moments = QueryEntries(count=count, mean=mean, m2=m2)
    assert isinstance(moments, Moments)
    assert_allclose(moments.std, [np.sqrt(1.25)], rtol=1e-12)
    assert_allclose(moments.average, [1e9 + 1.5], rtol=1e-15)
    grouped = moments_of_groups(np.ones((1, 4), dtype=np.int64), values[None], np.zeros((1, 4)))
    assert_allclose(grouped[2], [5.0], rtol=1e-12)


def test_at_most_eight_rows_of_at_most_256_weights_are_sampled(rng: np.random.Generator) -> None:
    query, key = rng.normal(size=(2, 40, 4)), rng.normal(size=(2, 300, 4))
    for rows in measure(query, key)["sample_rows"]:
        assert len(rows) == 8
        for row in rows:
            assert row.shape == (256,)
            assert np.all(np.diff(row) <= 0)
    state = RowSamples.empty(2)
    assert state.rows() == ((), ())


def test_sampled_rows_do_not_depend_on_their_order(rng: np.random.Generator) -> None:
    query, key = rng.normal(size=(1, 60, 4)), rng.normal(size=(1, 9, 4))
    shuffled = query[:, rng.permutation(60)]
    mine, theirs = (measure(one, key)["sample_rows"][0] for one in (query, shuffled))
    assert_allclose(np.hstack(mine), np.hstack(theirs), rtol=1e-12)


def test_sampled_rows_are_not_the_first_ones(rng: np.random.Generator) -> None:
    """Each row is as likely as any other: over many calls, both halves are met."""
    halves = [0, 0]
    for _ in range(20):
        query = rng.normal(size=(1, 64, 4))
        query[:, 32:] *= 1e-6  # recognisable by its even weights
        for row in measure(query, rng.normal(size=(1, 9, 4)))["sample_rows"][0]:
            halves[int(np.ptp(row) < 1e-3)] += 1
    assert min(halves) > 50


def test_a_formula_that_takes_what_there_is_not_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @quantity_module.quantity(unit="1", stage="scaled", definition=lambda head: head.scale)
    def lost(kurtosis: float) -> float:
        return kurtosis

    monkeypatch.setattr(quantity_module.discovery, "instances", lambda *_, **__: (lost,))
    quantities.cache_clear()
    try:
        with pytest.raises(DiscoveryError, match="lost takes kurtosis"):
            quantities()
    finally:
        quantities.cache_clear()
    assert isinstance(lost, Quantity)
