"""Every engine agrees with the reference, within bounds that follow from the dtype's eps."""

from __future__ import annotations

import importlib
from dataclasses import replace

import numpy as np
import pytest
from engines.bounds import EPS_64, Bounds
from engines.cases import CASES, Case

from rootdk.engines import (
    compiled,
    compiledsums,
    entries,
    linear,
    measure,
    operands,
    plain,
    ragged,
    scatter,
)
from rootdk.stats import Summary
from rootdk.stats.quantity import quantities

EPS_32 = float(np.finfo(np.float32).eps)
NUMBERS = [name for name, member in quantities().items() if member.per_head == "number"]
DTYPES = ["float64", "float32", "bfloat16", "float16"]


@pytest.fixture(params=["numpy-rows", "torch-rows", "torch-heads", "numpy-all", "torch-all"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A library, and blocks so small that a call takes many: a few rows, or a few heads, each.

    Where a block may hold all, compiled code takes what it can.
    """
    name, _, block = request.param.partition("-")
    if block == "all":
        pytest.importorskip("numba")
        for of in (compiled, entries):
            monkeypatch.setattr(of, "WORTH", 0)
            monkeypatch.setattr(of, "WORTH_LOADED", 0)
        importlib.import_module("rootdk.engines._numba.rows")
        monkeypatch.setattr(compiled, "CHUNK", 9)
        monkeypatch.setattr(compiled, "TOGETHER", 2 * 17)
    else:
        monkeypatch.setattr(compiledsums, "takes", lambda *_: False)
    for name_of_tile in ("TILE", "FLAT_TILE"):
        tile = {"rows": 5 * 17, "heads": 442, "all": 2**19}[block]
        monkeypatch.setattr(plain, name_of_tile, tile)
    monkeypatch.setattr(plain, "ORDERED_LEAST", 2)
    monkeypatch.setattr(operands, "SMALL", 0)
    monkeypatch.setattr(ragged, "CHUNK", 4)
    monkeypatch.setattr(scatter, "CHUNK", 4)
    return str(name)


def difference(mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Distance per head; 0 between equal infinities or NaNs, ∞ between NaN and a number."""
    same = (mine == theirs) | (np.isnan(mine) & np.isnan(theirs))
    with np.errstate(invalid="ignore"):
        apart = np.abs(mine - theirs)
    return np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))


def assert_within(summary: Summary, bounds: Bounds, names: list[str]) -> None:
    for name in names:
        apart, allowed = difference(summary[name], bounds.oracle[name]), bounds[name]
        assert np.all(apart <= allowed), (
            f"{name}: {summary[name]} by {summary.engine}, {bounds.oracle[name]} by reference; "
            f"{apart} apart, {allowed} allowed"
        )


def oracle_of(case: Case, score_dtype: str) -> Summary:
    return measure(
        case.query, case.key, **case.arguments, engine="reference", score_dtype=score_dtype
    )


def eps_of(summary: Summary) -> float:
    return EPS_32 if "float32" in summary.engine else EPS_64


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_blocked_agrees(name: str, dtype: str, library: str, rng: np.random.Generator) -> None:
    case = CASES[name](rng)
    given, arguments = case.given(library, dtype)
    summary = measure(*given, **arguments, engine="blocked")
    exact = case.rounded(dtype)
    bounds = Bounds(case=exact, eps=eps_of(summary), oracle=oracle_of(exact, dtype))
    names = [name for name in NUMBERS if name in summary]
    assert {"spread", "entropy_nats", "jacobian_norm", "implied_scale"} <= set(names)
    assert_within(summary, bounds, names)
    assert_histograms_agree(summary, bounds)
    assert_samples_agree(summary, bounds)


def assert_histograms_agree(summary: Summary, bounds: Bounds) -> None:
    """The number of scores under each edge may differ by those within rounding of the edge."""
    edges = np.linspace(-8.0, 8.0, 65)[1:-1]
    for head, bins in enumerate(summary["score_histogram"]):
        least, most = np.zeros(len(edges)), np.zeros(len(edges))
        fewest = largest = 0
        for standard, error in _standardised(bounds, head):
            certain = error < 0.5
            largest += len(standard)
            fewest += len(standard) if certain else 0
            margin = error * (1.0 + np.abs(edges))
            low = np.sum(standard < (edges - margin)[:, None], axis=1)
            high = np.sum(standard <= (edges + margin)[:, None], axis=1)
            least += low if certain else 0
            most += high if certain else len(standard)
        assert fewest <= np.sum(bins) <= largest
        under = np.cumsum(bins)[:-1]
        assert np.all(least <= under)
        assert np.all(under <= most)


def _standardised(bounds: Bounds, head: int) -> list[tuple[np.ndarray, float]]:
    """Every row's standardised scores, and how far rounding may have moved them, over 1 + |z|."""
    rows = []
    delta = iter(bounds.delta_scaled[head])
    for block in bounds.blocks:
        for scores, seen in zip(block.scores[head], block.visible[head], strict=True):
            error = next(delta) + 1e-12 * np.max(np.abs(scores), initial=0.0)
            kept = scores[seen]
            deviation = np.std(kept) if kept.size else 0.0
            if deviation > 0:
                off = 4 * error / deviation + 64 * bounds.eps
                rows.append(((kept - np.mean(kept)) / deviation, float(off)))
    return rows


def assert_samples_agree(summary: Summary, bounds: Bounds) -> None:
    """The same rows are sampled, and each weight of them is within its bound."""
    allowed = float(np.max(bounds.theta, initial=0.0))
    for mine, theirs in zip(summary["sample_rows"], bounds.oracle["sample_rows"], strict=True):
        assert len(mine) == len(theirs)
        for row, other in zip(mine, theirs, strict=True):
            assert row.shape == other.shape
            assert np.all(np.abs(row - other) <= 2 * allowed * np.maximum(other, row) + 8 * EPS_64)


LINEAR = ["spread", "row_spread", "score_mean", "implied_scale", "rows", "visible_scores"]
LINEAR += ["empty_rows", "single_key_rows"]


def in_sight(case: Case) -> Case:
    """The case without what keeps sums from following its scores."""
    kept = {name: value for name, value in case.arguments.items() if name not in ("mask", "bias")}
    if case.arguments.get("mask") is None or case.arguments["mask"].shape[-2] > 1:
        return replace(case, arguments=kept)
    # Padding by length: the keys up to some one.
    lengths = np.sum(case.arguments["mask"], axis=-1, keepdims=True)
    mask = np.arange(case.arguments["mask"].shape[-1]) < lengths
    return replace(case, arguments={**kept, "mask": mask})


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_linear_agrees(name: str, dtype: str, library: str, rng: np.random.Generator) -> None:
    case = in_sight(CASES[name](rng))
    given, arguments = case.given(library, dtype)
    summary = measure(*given, **arguments, quantities=LINEAR, engine="linear")
    assert summary.engine == f"linear ({library}, float64)"
    exact = case.rounded(dtype)
    assert_within(summary, Bounds(case=exact, eps=EPS_64, oracle=oracle_of(exact, dtype)), LINEAR)


@pytest.mark.parametrize("name", CASES)
def test_linear_agrees_in_float32(
    name: str, library: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear, "SMALL", 0)
    case = in_sight(CASES[name](rng))
    given, arguments = case.given(library, "float32")
    summary = measure(*given, **arguments, quantities=LINEAR, engine="linear")
    exact = case.rounded("float32")
    bounds = Bounds(case=exact, eps=eps_of(summary), oracle=oracle_of(exact, "float32"))
    assert_within(summary, bounds, LINEAR)
    if name in ("plain", "causal_top_left", "segments", "mean_of_300", "scores_to_1e4"):
        assert "float32" in summary.engine, "what float32 is exact enough for is left to it"
