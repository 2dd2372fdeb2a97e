"""Few rows at a time: what is left among scores, and what was taken off, is in no number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

torch = pytest.importorskip("torch")

from rootdk import measure  # noqa: E402
from rootdk.engines import compiled, operands, plain  # noqa: E402

HEADS, LENGTH, DEPTH = 3, 120, 8

ORDERS: dict[str, dict[str, Any]] = {
    "all": {},
    "causal": {"causal": "bottom_right"},
    "window": {"causal": "top_left", "window": (30, 0)},
    "mask": {},
    "mask of all heads": {},
    "left padding": {},
    "right padding": {},
    "padding and order": {"causal": "top_left"},
    "padding of heads": {},
}


def mask_of(order: str, rng: np.random.Generator) -> np.ndarray | None:
    position = np.arange(LENGTH)
    if order.startswith("mask"):
        mask = rng.random((1, HEADS if order == "mask" else 1, LENGTH, LENGTH)) < 0.6
        mask[:, :, 4], mask[:, :, 5, 1:] = False, False
        return mask
    if order == "padding of heads":
        return (position < LENGTH - 9 * np.arange(HEADS)[:, None])[None, :, None]
    if order == "left padding":
        return (position >= 17)[None, None, None]
    return (position < LENGTH - 17)[None, None, None] if "padding" in order else None


@pytest.fixture(autouse=True)
def few_rows_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "fits", lambda call: False)
    monkeypatch.setattr(operands, "SMALL", 0)
    monkeypatch.setattr(plain, "FLAT_TILE", HEADS * LENGTH * 25)


@pytest.fixture(params=["numpy", "one thread", "two threads"])
def given(request: pytest.FixtureRequest) -> Iterator[Any]:
    """What turns arrays of NumPy into those of a library, with so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(2 if request.param == "two threads" else 1)
    yield np.asarray if request.param == "numpy" else torch.from_numpy
    torch.set_num_threads(before)


def entries(kind: str, rng: np.random.Generator) -> list[np.ndarray]:
    query, key = rng.normal(size=(2, 1, HEADS, LENGTH, DEPTH))
    if kind == "large":  # scores of up to some hundred
        query *= 40.0
    elif kind == "drifting":  # the keys that a row sees have a mean far from that of all
        key += np.linspace(-9.0, 9.0, LENGTH)[:, None]
    elif kind == "flat":
        query[:, :, ::3] = 0.0
    elif kind == "one-sided":  # no score is on the other side of 0
        query, key = np.abs(query) + 0.1, np.abs(key) + np.linspace(0.0, 5.0, LENGTH)[:, None]
    elif kind == "dominated":
        key[:, :, 7] *= 30.0
    return [query.astype(np.float32), key.astype(np.float32)]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", ["plain", "large", "drifting", "flat", "one-sided", "dominated"])
def test_the_numbers_are_those_of_the_reference(
    kind: str, order: str, given: Any, rng: np.random.Generator
) -> None:
    arrays, arguments = [given(each) for each in entries(kind, rng)], dict(ORDERS[order])
    mask = mask_of(order, rng)
    if mask is not None:
        arguments["mask"] = given(mask)
    mine = measure(*arrays, **arguments, engine="blocked")
    theirs = measure(*arrays, **arguments, engine="reference")
    assert f"float32, 25×{LENGTH}" in mine.engine
    largest = np.max(np.abs([theirs["min_score"], theirs["max_score"]]))
    for name in set(theirs.quantities) - {"score_histogram", "sample_rows"}:
        of_scores = largest if "score" in name or name == "logsumexp" else 1.0
        assert_allclose(
            mine[name], theirs[name], rtol=2e-5, atol=2e-6 * of_scores, equal_nan=True, err_msg=name
        )
    counts, right = mine["score_histogram"], theirs["score_histogram"]
    assert_allclose(np.sum(counts, axis=-1), np.sum(right, axis=-1))
    # But for one in a thousand, which roundings take over a border between two bins.
    assert np.all(np.sum(np.abs(counts - right), axis=-1) <= 1e-3 * np.sum(right, axis=-1) + 2)


def test_the_entropy_of_a_row_that_one_key_takes_keeps_its_digits(
    given: Any, rng: np.random.Generator
) -> None:
    query, key = rng.normal(1.0, 0.05, size=(2, 1, HEADS, LENGTH, DEPTH))
    key[:, :, :-1] *= -1.0
    arrays = [given(each.astype(np.float32)) for each in (query, key)]
    # Scores are up to 10 above their mean: not so large that they are taken from the largest.
    mine = measure(*arrays, engine="blocked", scale=10.0 / (2 * DEPTH))
    theirs = measure(*arrays, engine="reference", scale=10.0 / (2 * DEPTH))
    assert np.all(theirs["entropy_nats"] < 0.1)
    for name in ("entropy_nats", "jacobian_trace", "jacobian_norm"):
        assert_allclose(mine[name], theirs[name], rtol=1e-5, err_msg=name)


def test_heads_of_two_arithmetics_share_no_edges(
    given: Any, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores of the second head are too large for float32, those of the others are not."""
    monkeypatch.setattr(plain, "TILE", 1)  # a head at a time
    query, key = rng.normal(size=(2, 1, HEADS, LENGTH, DEPTH))
    query[:, 1] *= 1e4
    arrays = [given(each.astype(np.float32)) for each in (query, key)]
    for order in ("causal", "window"):
        mine = measure(*arrays, **ORDERS[order], engine="blocked")
        theirs = measure(*arrays, **ORDERS[order], engine="reference")
        assert "float32 and float64" in mine.engine
        assert_allclose(mine["spread"], theirs["spread"], rtol=1e-5)
        assert_allclose(mine["entropy_nats"], theirs["entropy_nats"], rtol=1e-4, atol=1e-12)


@pytest.mark.parametrize("order", ["all", "causal", "window"])
def test_heads_whose_statistics_are_taken_together_keep_their_own_rows(
    order: str, given: Any, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain, "TILE", 1)  # a head at a time
    monkeypatch.setattr(plain, "TOGETHER", 2 * LENGTH)  # and two of three at once
    query, key = entries("plain", rng)
    arrays = [given(query * np.asarray([0.5, 1.0, 2.0], np.float32)[:, None, None]), given(key)]
    mine = measure(*arrays, **ORDERS[order], engine="blocked")
    theirs = measure(*arrays, **ORDERS[order], engine="reference")
    for name in ("spread", "entropy_nats", "max_weight", "visible_scores"):
        assert_allclose(mine[name], theirs[name], rtol=2e-5, err_msg=name)
    for of_mine, of_theirs in zip(mine["sample_rows"], theirs["sample_rows"], strict=True):
        assert len(of_mine) == len(of_theirs) == 8
        for row, other in zip(of_mine, of_theirs, strict=True):
            assert_allclose(row, other, rtol=1e-4)


@pytest.mark.parametrize("small", ["heads", "rows"])
def test_small_scores_beside_large_ones_are_not_flat(
    small: str, given: Any, rng: np.random.Generator
) -> None:
    """What rounding may be in the large ones is more than all of theirs."""
    query, key = entries("plain", rng)
    query[:, 0 if small == "heads" else slice(None), :: 1 if small == "heads" else 2] *= 1e-4
    query[:, 1, 1::2] *= 30.0
    arrays = [given(query), given(key)]
    mine = measure(*arrays, engine="blocked")
    assert "float32" in mine.engine
    assert np.all(np.sum(mine["score_histogram"], axis=-1) == LENGTH * LENGTH)
