"""The chance that one key holds more than a share: closed form, bound, samples, both laws."""

import math

import numpy as np
import pytest

from rootdk._lib.errors import ArgumentError
from rootdk.lab._row_share import NEGLIGIBLE, _transform, row_share

SHARES = (0.5, 0.9, 0.99)


def normal_above(x: float) -> float:
    return 0.5 * math.erfc(x / math.sqrt(2.0))


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("spread", [0.1, 1.0, 30.0])
def test_two_keys_are_a_normal_gap(share: float, spread: float) -> None:
    gap = math.log(share / (1.0 - share)) / (spread * math.sqrt(2.0))
    expected = 2.0 * normal_above(gap)
    assert row_share(share, spread, 2)[0] == pytest.approx(expected, abs=NEGLIGIBLE)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("spread", [0.3, 0.8, 1.0, 1.2, 2.0, 12.0])
def test_three_keys_are_a_sum_over_two_of_them(share: float, spread: float) -> None:
    # given the other two, the first exceeds a bound; the trapezoidal rule is exact enough
    z = np.linspace(-8.5, 8.5, 1001)
    weight = np.exp(-0.5 * z**2) * (z[1] - z[0]) / math.sqrt(2.0 * math.pi)
    log_sum = np.logaddexp(spread * z[:, None], spread * z)
    bound = (log_sum + math.log(share / (1.0 - share))) / spread
    above = 0.5 * np.vectorize(math.erfc)(bound / math.sqrt(2.0))
    expected = 3.0 * float(weight @ above @ weight)
    assert row_share(share, spread, 3)[0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("spread", "keys"), [(0.8, 12), (1.4, 12), (5.0, 12), (3.0, 400)])
def test_a_large_sample_agrees(spread: float, keys: int, rng: np.random.Generator) -> None:
    rows = 1_000_000 // keys
    scores = spread * rng.standard_normal((rows, keys))
    scores -= scores.max(axis=1, keepdims=True)
    largest = 1.0 / np.exp(scores).sum(axis=1)
    for share in SHARES:
        chance = row_share(share, spread, keys)[0]
        error = math.sqrt(max(chance * (1.0 - chance), 1.0 / rows) / rows)
        assert abs((largest > share).mean() - chance) < 4.5 * error


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("keys", [3, 12, 1000])
def test_the_narrow_and_the_wide_law_meet(share: float, keys: int) -> None:
    narrow, wide = row_share(share, 1.0, keys), row_share(share, np.nextafter(1.0, 2.0), keys)
    assert wide[0] == pytest.approx(narrow[0], abs=1e-9)


def test_the_angle_of_the_ray_does_not_matter() -> None:
    points = np.linspace(-3.0, 3.0, 7)
    for spread in (0.6, 2.0):
        plain = _transform(points, spread, 0.5, 0.0)
        turned = _transform(points, spread, 0.2, 0.3)
        np.testing.assert_allclose(turned, plain, rtol=0.0, atol=1e-12)


def test_what_is_bounded_by_next_to_nothing_is_nothing() -> None:
    assert row_share(0.99, 0.1, 12).tolist() == [0.0, 0.0]


def test_without_spread_nobody_has_more_than_half() -> None:
    assert row_share(0.5, 0.0, 2).tolist() == [0.0, 0.0]


def test_one_key_has_it_all() -> None:
    assert row_share(0.99, 0.0, 1).tolist() == [1.0, 1.0]


def test_more_keys_than_a_sample_could_hold() -> None:
    fine, coarse = row_share(0.9, 6.0, 10**6)
    assert 0.0397 < fine < 0.0398
    assert abs(fine - coarse) < 1e-5


@pytest.mark.parametrize("share", [0.49, 1.0, math.nan])
def test_a_share_that_several_keys_could_exceed_is_refused(share: float) -> None:
    with pytest.raises(ArgumentError, match=r"expected a number from 0[.]5 up and below 1"):
        row_share(share, 1.0, 12)
