"""Expectations over a row: closed forms, brute force, large samples, and laws between them."""

import math

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss

from rootdk.lab import _row_law
from rootdk.lab._quadrature import Panels, lattice_sums, to_the_right
from rootdk.lab._row_law import QUANTITIES, row_expectations
from rootdk.lab._rows import PER_ROW, rows_shown

TOLERANCE = 1e-9
"""The integrals are good to about 1e-12; the brute force here to about 1e-10."""


def values(spread: float, keys: int) -> dict[str, float]:
    return dict(zip(QUANTITIES, row_expectations(spread, keys)[0], strict=True))


def between_two_keys(spread: float) -> dict[str, float]:
    """All of them for two keys: integrals over the gap between the scores, which is normal."""
    gap = np.linspace(0.0, 14.0, 200_001) * spread * math.sqrt(2.0)
    weight = np.full_like(gap, gap[1] - gap[0])
    weight[[0, -1]] /= 2.0
    weight *= np.exp(-(gap**2) / (4.0 * spread**2)) / (spread * math.sqrt(math.pi))
    rows = rows_shown(np.stack([gap, -gap], axis=1) / 2.0)
    return {name: float(weight @ rows[:, PER_ROW.index(name)]) for name in QUANTITIES}


@pytest.mark.parametrize("spread", [0.01, 0.3, 1.0, 1.0001, 3.0, 30.0])
def test_two_keys_are_an_integral_over_their_gap(spread: float) -> None:
    found = values(spread, 2)
    by_hand = between_two_keys(spread)
    for name in QUANTITIES:
        assert found[name] == pytest.approx(by_hand[name], abs=1e-8), name


@pytest.mark.parametrize("spread", [0.5, 1.0, 1.5])
def test_three_keys_are_a_sum_over_a_grid_in_three_dimensions(spread: float) -> None:
    nodes, weights = hermegauss(80)
    weights = weights / weights.sum()
    grid = np.stack(np.meshgrid(*[spread * nodes] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    weight = np.einsum("i,j,k->ijk", weights, weights, weights).ravel()
    rows = rows_shown(grid)
    found = values(spread, 3)
    # the others have a kink where two scores are equal, which a Gauss rule does not like
    for name in ("entropy_nats", "squared_weights", "jacobian_squared", "log_normaliser"):
        by_hand = float(weight @ rows[:, PER_ROW.index(name)])
        assert found[name] == pytest.approx(by_hand, abs=TOLERANCE), name


@pytest.mark.parametrize(
    ("spread", "keys", "rows"), [(0.7, 12, 100_000), (4.0, 12, 100_000), (2.0, 500, 4000)]
)
def test_a_large_sample_agrees(
    spread: float, keys: int, rows: int, rng: np.random.Generator
) -> None:
    shown = rows_shown(spread * rng.standard_normal((rows, keys)))
    found = values(spread, keys)
    for name in QUANTITIES:
        column = shown[:, PER_ROW.index(name)]
        error = column.std() / math.sqrt(rows)
        assert abs(column.mean() - found[name]) < 4.5 * error, name


@pytest.mark.parametrize("keys", [2, 12, 1000, 10**6])
@pytest.mark.parametrize("spread", [0.1, 1.0, 5.0, 100.0])
def test_the_weights_sum_to_one(spread: float, keys: int) -> None:
    law = _row_law._Shifted.by(spread)
    exponential = np.exp(law.place)
    kept = np.exp(-exponential)
    lost = law.mean(-np.expm1(-exponential)) + law.beyond
    others = np.exp((keys - 1) * np.log1p(-np.minimum(lost, _row_law._ALMOST_ONE)))
    total, _ = keys * lattice_sums(law.mean(exponential * kept) * others, law.step)
    # 1e-15 times the keys, in exponents
    assert total == pytest.approx(1.0, abs=1e-12 + 1e-14 * keys)


@pytest.mark.parametrize("keys", [2, 12, 10**5])
def test_both_ways_to_place_the_nodes_agree_where_they_meet(keys: int) -> None:
    narrow, wide = row_expectations(1.0, keys)[0], row_expectations(np.nextafter(1.0, 2.0), keys)[0]
    np.testing.assert_allclose(wide, narrow, rtol=0.0, atol=TOLERANCE)


@pytest.mark.parametrize("keys", [1, 2, 12, 4096])
def test_scores_without_spread_give_uniform_weights(keys: int) -> None:
    found = values(1e-9, keys)
    assert found["max_weight"] == pytest.approx(1 / keys, abs=1e-8)
    assert found["entropy_nats"] == pytest.approx(math.log(keys), abs=1e-8)
    assert found["squared_weights"] == pytest.approx(1 / keys, abs=1e-8)
    assert found["jacobian_squared"] == pytest.approx(1 / keys - 1 / keys**2, abs=1e-8)


@pytest.mark.parametrize("keys", [2, 12, 1000])
def test_a_large_spread_gives_all_to_one_key(keys: int) -> None:
    found = values(1e6, keys)
    assert found["max_weight"] == pytest.approx(1.0, abs=1e-4)
    assert found["entropy_nats"] == pytest.approx(0.0, abs=1e-4)


def test_one_key_has_it_all() -> None:
    assert values(3.0, 1) == {
        "max_weight": 1.0,
        "entropy_nats": 0.0,
        "squared_weights": 1.0,
        "jacobian_max": 0.0,
        "jacobian_squared": 0.0,
        "log_normaliser": 0.0,
    }


@pytest.mark.parametrize(("spread", "keys"), [(0.5, 12), (2.0, 12), (40.0, 12), (2.0, 10**6)])
def test_half_the_points_say_nearly_the_same(spread: float, keys: int) -> None:
    fine, coarse = row_expectations(spread, keys)
    # the scale of the entropy is that of the logarithm of Z
    scale = np.where(np.isin(QUANTITIES, ["entropy_nats", "log_normaliser"]), 1.0 + spread, 1.0)
    assert np.all(np.abs(fine - coarse) < 1e-5 * scale)
    assert np.any(fine != coarse), "another sum, and not the same one"


# ------------------------------------------------------------------ the quadrature under it


def test_panels_integrate_polynomials_to_rounding() -> None:
    panels = Panels.over(-1.0, 2.0, width=0.7)
    assert panels.nodes.shape == (5, 16)
    assert float(panels.weights.sum()) == pytest.approx(3.0, abs=1e-14)
    powers = (panels.nodes**9 * panels.weights).sum()
    assert float(powers) == pytest.approx((2.0**10 - 1.0) / 10.0, rel=1e-14)


def test_integrals_from_each_node_on() -> None:
    panels = Panels.over(-1.0, 1.0, width=2.0)
    found = to_the_right() @ np.cos(panels.nodes[0])
    np.testing.assert_allclose(found, np.sin(1.0) - np.sin(panels.nodes[0]), atol=1e-14)


def test_a_lattice_integrates_what_vanishes_at_both_ends() -> None:
    points = np.arange(-10.0, 10.25, 0.25)
    fine, coarse = lattice_sums(np.exp(-(points**2)), 0.25)
    assert fine == pytest.approx(math.sqrt(math.pi), abs=1e-15)
    assert coarse == pytest.approx(math.sqrt(math.pi), abs=1e-14)
