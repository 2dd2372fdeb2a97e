"""The parts of the spread: each by its definition, and all of them together the spread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from rootdk import measure, spread_parts
from rootdk._lib.errors import ArgumentError, ShapeError

NAMES = ("entries", "query_offset", "key_offset", "between")


def entries(rng: np.random.Generator, mean: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    """Queries and keys with offsets, and with directions in which they vary more."""
    stretch = np.linspace(0.2, 2.0, 8)
    query = stretch * rng.normal(size=(3, 4, 33, 8)) + mean * rng.normal(size=(3, 4, 1, 8))
    key = stretch * rng.normal(size=(3, 2, 21, 8)) + mean * rng.normal(size=(3, 2, 1, 8))
    return query, key


def by_definition(query: np.ndarray, key: np.ndarray, scale: float) -> dict[str, np.ndarray]:
    """Variances over the scores of what is left when means are, and are not, taken out."""
    key = np.repeat(key, query.shape[1] // key.shape[1], axis=1)
    means = query.mean(2, keepdims=True), key.mean(2, keepdims=True)
    rest = query - means[0], key - means[1]

    def squares(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return np.mean((scale * left @ right.mT) ** 2, axis=(0, 2, 3))

    return {
        "entries": squares(*rest),
        "query_offset": squares(means[0], rest[1]),
        "key_offset": squares(rest[0], means[1]),
        "between": np.var((scale * means[0] @ means[1].mT)[..., 0, 0], axis=0),
    }


@pytest.mark.parametrize("library", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_each_part_is_what_its_definition_gives(rng: np.random.Generator, library: Any) -> None:
    query, key = entries(rng)
    found = spread_parts(library(query), library(key), scale=0.3)
    for name, expected in by_definition(query, key, 0.3).items():
        # Sums of a few thousand products in float64.
        assert_allclose(getattr(found, name), expected, rtol=1e-12, err_msg=name)


def test_together_they_are_the_spread(rng: np.random.Generator) -> None:
    query, key = entries(rng)
    found = spread_parts(query, key)
    assert_allclose(found.spread**2, sum(getattr(found, name) for name in NAMES), rtol=1e-14)
    assert_allclose(found.spread, measure(query, key)["spread"], rtol=1e-12)


def test_a_large_mean_costs_no_digits(rng: np.random.Generator) -> None:
    query, key = (each.astype(np.float32) for each in entries(rng, mean=300.0))
    query, key = np.repeat(query, 40, axis=2), np.repeat(key, 40, axis=2)
    found = spread_parts(torch.from_numpy(query), torch.from_numpy(key))
    exact = by_definition(query.astype(np.float64), key.astype(np.float64), 8**-0.5)
    for name, expected in exact.items():
        # Half of 2⁻¹⁹, which float32 products are allowed of the whole, of which entries are small.
        assert_allclose(getattr(found, name), expected, rtol=1e-6, atol=1e-6 * found.spread.max())


def test_anisotropy_is_of_common_directions(rng: np.random.Generator) -> None:
    alike = rng.normal(size=(2, 1, 4096, 16))
    one = rng.normal(size=(2, 1, 64, 1)) * np.eye(16)[3]
    other = rng.normal(size=(1, 64, 1)) * np.eye(16)[5]
    # A covariance of 4096 normal entries is off by √(2/4096) here and there.
    assert_allclose(spread_parts(*alike).anisotropy, 1.0, atol=0.05)
    assert_allclose(spread_parts(*one).anisotropy, 16.0, rtol=1e-12)
    assert_allclose(spread_parts(one[0], other).anisotropy, 0.0, atol=1e-12)
    assert np.isnan(spread_parts(np.ones((3, 4)), np.ones((3, 4))).anisotropy[0])


def test_what_has_no_spread_is_refused() -> None:
    query = np.ones((4, 8))
    with pytest.raises(ArgumentError, match="there is no score: batch 1, queries 4, keys 0"):
        spread_parts(query, np.ones((0, 8)))
    with pytest.raises(ArgumentError, match="entry of the key is not finite; expected finite"):
        spread_parts(query, np.full((4, 8), np.nan))
    with pytest.raises(ArgumentError, match="expected smaller entries"):
        spread_parts(1e200 * np.eye(8), 1e200 * np.eye(8))
    with pytest.raises(ShapeError, match="head_dim"):
        spread_parts(query, np.ones((4, 7)))
