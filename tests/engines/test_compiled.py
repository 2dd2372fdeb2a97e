"""The compiled engine: what is its own, beside the numbers that all engines agree on."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

pytest.importorskip("numba")

from rootdk import measure
from rootdk.engines import compiled, workers
from rootdk.engines._numba import panels, passes
from rootdk.stats import Summary

SHAPE = (2, 4, 150, 24)


@pytest.fixture(autouse=True)
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """However small the call, compiled code takes it, on three threads."""
    importlib.import_module("rootdk.engines._numba.rows")
    monkeypatch.setattr(compiled, "WORTH_LOADED", 0)
    monkeypatch.setattr(compiled, "ENTRIES", 0)
    monkeypatch.setattr(workers, "available", lambda: 3)
    monkeypatch.setattr(workers, "TEAM_WORTH", 0.0)
    monkeypatch.setattr(workers, "OWN_WORTH", 0.0)


def arrays(rng: np.random.Generator, kv_heads: int = 4) -> tuple[np.ndarray, np.ndarray]:
    batch, heads, length, depth = SHAPE
    query = rng.normal(size=(batch, heads, length, depth))
    key = rng.normal(1.0, 1.0, size=(batch, kv_heads, length, depth))
    return query.astype(np.float32), key.astype(np.float32)


def assert_same_rows(mine: Summary, theirs: Summary, rtol: float) -> None:
    for of_mine, of_theirs in zip(mine["sample_rows"], theirs["sample_rows"], strict=True):
        assert len(of_mine) == len(of_theirs) > 0
        for row, other in zip(of_mine, of_theirs, strict=True):
            assert_allclose(row, other, rtol=rtol, atol=1e-12)


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (1, 0, 2, 3), (3, 0, 2, 1)])
def test_the_order_in_memory_makes_no_difference(
    order: tuple[int, ...], kv_heads: int, rng: np.random.Generator
) -> None:
    given = arrays(rng, kv_heads)
    lain = [
        np.ascontiguousarray(each.transpose(order)).transpose(np.argsort(order)) for each in given
    ]
    mine, theirs = measure(*lain), measure(*given)
    assert mine.engine.startswith("blocked (numba")
    for name in theirs.quantities:
        if name != "sample_rows":
            assert_allclose(mine[name], theirs[name], rtol=1e-6, atol=1e-9, err_msg=name)
    assert_same_rows(mine, theirs, 1e-6)


@pytest.mark.parametrize("padding", ["none", "of_elements", "of_heads"])
def test_padding_that_heads_share_or_do_not(padding: str, rng: np.random.Generator) -> None:
    given, mask = arrays(rng, 2), None
    if padding != "none":
        many = SHAPE[1] if padding == "of_heads" else 1
        mask = np.arange(SHAPE[2]) < rng.integers(5, 150, size=(SHAPE[0], many, 1, 1))
    mine = measure(*given, mask=mask)
    theirs = measure(*given, mask=mask, engine="reference")
    assert mine.engine.startswith("blocked (numba")
    for name in ("spread", "entropy_nats", "max_weight", "visible_scores", "min_score"):
        assert_allclose(mine[name], theirs[name], rtol=1e-5, err_msg=name)
    assert_same_rows(mine, theirs, 1e-4)


@pytest.mark.parametrize("number", [np.nan, np.inf, 1e30])
@pytest.mark.parametrize(
    "given", [{"causal": "top_left"}, {"causal": "bottom_right", "window": (9, 0)}]
)
def test_a_bias_counts_only_where_keys_are_seen(
    given: dict[str, Any], number: float, rng: np.random.Generator
) -> None:
    """What stands in the bias past the reach of a row changes nothing, in sampled rows either."""
    length = SHAPE[2]
    bias = rng.normal(size=(1, SHAPE[1], length, length)).astype(np.float32)
    queries, keys = np.arange(length)[:, None], np.arange(length)
    clean, hidden = bias.copy(), keys > queries
    bias[..., hidden] = number
    query, key = arrays(rng)
    mine = measure(query, key, bias=bias, **given)
    assert mine.engine.startswith("blocked (numba")
    assert_same_rows(mine, measure(query, key, bias=clean, engine="reference", **given), 1e-4)


@pytest.mark.parametrize("many", [1, 2, 47, passes.SEGMENT])
def test_the_place_of_a_number_is_that_of_its_first(many: int, rng: np.random.Generator) -> None:
    scores = rng.permutation(many).astype(np.float32)
    places = [passes.place_of(scores, np.float32(number)) for number in range(many)]
    assert_array_equal(places, np.argsort(scores))
    scores[many // 2 :] = 7777.0
    assert passes.place_of(scores, np.float32(7777.0)) == many // 2


def test_the_largest_norm_is_that_of_the_rows_asked_for(rng: np.random.Generator) -> None:
    query, _ = arrays(rng)
    some, found = np.asarray([3, 8, 149]), np.empty(SHAPE[1])
    for of in (query[0], np.ascontiguousarray(query[0].transpose(1, 0, 2)).transpose(1, 0, 2)):
        panels.largest_norms(of, some, found)
        assert_allclose(found, np.max(np.sum(of[:, some] ** 2, axis=-1), axis=-1), rtol=1e-5)
    query[0, 1, 8, 0], query[0, 2, 5, 0] = np.nan, np.inf
    panels.largest_norms(query[0], some, found)
    assert_array_equal(np.isinf(found), [False, True, False, False])


def test_small_scores_beside_large_ones_are_not_flat(rng: np.random.Generator) -> None:
    """What rounding may be in those of some rows is more than all of the others'."""
    query, key = arrays(rng)
    query[:, :, ::2] *= 1e-4
    query[:, :, 1] *= 30.0
    mine = measure(query, key)
    assert mine.engine.startswith("blocked (numba")
    assert np.all(np.sum(mine["score_histogram"], axis=-1) == SHAPE[0] * SHAPE[2] ** 2)
