"""Exact distributions: against listing, against closed forms, and at sizes that none can list."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rootdk import lab
from rootdk._lib.errors import ArgumentError
from rootdk.lab.lattice import (
    Distribution,
    Moments,
    TooManyValuesError,
    dot_product,
    dot_product_by_listing,
    entry,
    moments,
)

rationals = st.fractions(min_value=-3, max_value=3, max_denominator=4)


@given(
    st.lists(rationals, min_size=1, max_size=3, unique=True),
    st.integers(min_value=1, max_value=3),
    st.data(),
)
def test_counting_agrees_with_listing(values: list[Fraction], head_dim: int, data: object) -> None:
    weights = st.integers(min_value=1, max_value=4)
    sized = st.lists(weights, min_size=len(values), max_size=len(values))
    chances = data.draw(sized)  # type: ignore[attr-defined]
    one = entry(values, chances)
    counted, listed = dot_product(one, head_dim), dot_product_by_listing(one, head_dim)
    assert dict(counted.cases) == dict(listed.cases)
    assert list(counted.cases) == sorted(counted.cases)
    assert counted.total == one.total ** (2 * head_dim)


@given(st.lists(rationals, min_size=1, max_size=4, unique=True), st.integers(1, 12))
def test_the_variance_is_that_of_one_product_times_head_dim(
    values: list[Fraction], head_dim: int
) -> None:
    one = entry(values)
    second, mean = one.moment(2), one.moment(1)
    assert dot_product(one, head_dim).variance == head_dim * (second**2 - mean**4)


@pytest.mark.parametrize("head_dim", [1, 2, 7, 64])
def test_signs_are_binomial(head_dim: int) -> None:
    cases = dot_product(entry((-1, 1)), head_dim).cases
    for k in range(head_dim + 1):
        assert cases[Fraction(2 * k - head_dim)] == math.comb(head_dim, k) * 2**head_dim


def test_head_dim_1024_in_whole_numbers() -> None:
    scores = dot_product(entry((-1, 1)), 1024)
    assert scores.total == 4**1024
    assert scores.variance == 1024
    # The fourth moment of a sum of n signs is 3n² − 2n.
    assert scores.moment(4) == 3 * 1024**2 - 2 * 1024


def test_an_entry_that_cannot_vary() -> None:
    assert dot_product(entry((Fraction(1, 2),)), 8).cases == {Fraction(2): 1}
    assert dot_product(entry((0,)), 3).variance == 0


def test_chances_are_proportions() -> None:
    assert entry((0, 1), (Fraction(1, 3), Fraction(1, 6))) == Distribution(
        cases={Fraction(0): 2, Fraction(1): 1}
    )


@pytest.mark.parametrize(("values", "chances"), [((), ()), ((1, 2), (1,)), ((1, 2), (1, 0))])
def test_chances_that_mean_nothing_are_refused(
    values: tuple[int, ...], chances: tuple[int, ...]
) -> None:
    with pytest.raises(ArgumentError, match="expected a chance above 0 for each value"):
        entry(values, chances)


def test_a_lattice_too_fine_is_refused_before_it_is_computed() -> None:
    fine = entry((Fraction(1, 9973), 1))
    with pytest.raises(TooManyValuesError, match="expected at most 2000000 terms"):
        dot_product(fine, 1024)
    with pytest.raises(TooManyValuesError, match="whole numbers of up to 100000 bits"):
        dot_product(entry((-1, 1)), 100_000)


@given(st.lists(rationals, min_size=1, max_size=3, unique=True), st.integers(1, 9))
def test_moments_need_no_distribution(values: list[Fraction], head_dim: int) -> None:
    one = entry(values)
    assert moments(one, head_dim) == Moments.of(dot_product(one, head_dim))


def test_a_head_too_wide_to_count_still_has_its_variance() -> None:
    table = lab.variance_exact(method="exact", widths=(64, 10**6), values=("-1", "0", "2")).table
    assert table["counted"] == (True, False)
    assert table["variance_over_sqrt_d"][0] == table["variance_over_sqrt_d"][1]
    assert abs(table["kurtosis"][1] - 3.0) < 1e-5


def test_too_many_pairs_are_not_listed() -> None:
    with pytest.raises(ArgumentError, match=r"4\^11 pairs of vectors"):
        dot_product_by_listing(entry((-1, 1)), 11)
