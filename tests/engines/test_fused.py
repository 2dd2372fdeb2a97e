"""What a fused kernel gives is right, or it is refused; what it does not give, blocks do."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from engines.bounds import Bounds
from engines.cases import Case
from engines.test_agreement import difference, oracle_of
from engines.test_properties import EXAMPLES, cases, eps_of
from hypothesis import given

from rootdk import Summary, measure
from rootdk._lib.errors import ArgumentError
from rootdk.engines import compiled, fused, fusedkernels
from rootdk.engines.fusedkernels import Attended

torch = pytest.importorskip("torch")

ROWS = ["entropy_nats", "effective_keys_2", "jacobian_trace", "logsumexp"]
MONITOR = [*ROWS, "max_weight", "max_score", "min_score", "rows"]


def assert_near(summary: Summary, case: Case, dtype: str, names: list[str]) -> None:
    exact = case.rounded(dtype)
    bounds = Bounds(case=exact, eps=eps_of(summary), oracle=oracle_of(exact, dtype))
    # L and scale·q·A are each off by their own rounding, and so is every number of the row.
    size = np.max(np.abs(bounds.delta_scaled), initial=0.0) + bounds.rho
    for name in names:
        if name == "effective_keys_2":
            relative = summary[name] / bounds.oracle[name]
            assert np.all(np.isnan(relative) | (np.abs(relative - 1) <= 8 * size)), name
        else:
            assert np.all(difference(summary[name], bounds.oracle[name]) <= 4 * size), name


@EXAMPLES
@given(
    case=cases(),
    dtype=st.sampled_from(["float32", "float64", "bfloat16"]),
    wanted=st.sampled_from([ROWS, MONITOR]),
)
def test_fused_agrees_or_refuses(case: Case, dtype: str, wanted: list[str]) -> None:
    given_arrays, arguments = case.given("torch", dtype)
    try:
        summary = measure(*given_arrays, **arguments, quantities=wanted, engine="fused")
    except ArgumentError:
        return
    assert_near(summary, case, dtype, wanted)


def test_fused_falls_back_where_scores_are_large(rng: np.random.Generator) -> None:
    query = torch.from_numpy(300 * rng.normal(size=(1, 2, 20, 16))).float()
    with pytest.raises(ValueError, match="too large for float32"):
        measure(query, query, quantities=["entropy_nats"], engine="fused")
    assert measure(query, query, quantities=["entropy_nats"]).engine.startswith("blocked")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"softcap": 3.0}, "a softcap is no part"),
        ({"bias": torch.zeros(20, 20)}, "the expectation of a bias that differs by query"),
        ({"bias": torch.full((20,), -1e9)}, "scores of up to 1e.09 are too large"),
        ({"quantities": ["max_weight"]}, "row_maximum cannot be had"),
        ({"quantities": ["max_weight", "spread"]}, "row_maximum, score_moments cannot be had"),
    ],
)
def test_fused_says_why_it_cannot(changed: dict[str, Any], why: str) -> None:
    query = torch.ones(1, 2, 20, 16)
    arguments = {"quantities": ["entropy_nats"], **changed}
    with pytest.raises(ValueError, match=why):
        measure(query, query, engine="fused", **arguments)


def test_largest_scores_come_from_blocks_where_no_kernel_gives_them(
    rng: np.random.Generator,
) -> None:
    query = torch.from_numpy(rng.normal(size=(1, 2, 40, 16))).float()
    wanted = ["entropy_nats", "max_weight", "max_score"]
    summary = measure(query, query, quantities=wanted, engine="fused")
    assert summary.engine.startswith("fused (torch, float32, flash_attention_for_cpu); extremes, ")
    assert "row_maximum beside it: blocked (" in summary.engine
    of_blocks = measure(query, query, quantities=wanted, engine="blocked")
    np.testing.assert_array_equal(summary["max_score"], of_blocks["max_score"])
    np.testing.assert_array_equal(summary["max_weight"], of_blocks["max_weight"])
    # As much alone as with all else: so nothing is chosen for it that is not asked for.
    assert measure(query, query, quantities=wanted).engine.startswith("blocked")


@pytest.mark.parametrize("wrong", ["logsumexp", "output"])
def test_a_kernel_that_is_wrong_for_one_call_is_not_believed(
    wrong: str, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """It is right about the small call that it was tried on."""
    query = torch.from_numpy(rng.normal(size=(1, 2, 1200, 16))).float()
    ask = {"quantities": ["entropy_nats"], "causal": "top_left"}
    monkeypatch.setattr(compiled, "fits", lambda call: False)
    exact = measure(query, query, **ask)
    assert exact.engine.startswith("fused")

    def last_row_wrong(*args: Any, **kwargs: Any) -> Attended:
        found = fusedkernels.attend(*args, **kwargs)
        getattr(found, wrong)[0, 1, -1] += 0.01
        return found

    monkeypatch.setattr(fused, "attend", last_row_wrong)
    with pytest.raises(ValueError, match=f"the {wrong} that a kernel returned is off by 0.01 in"):
        measure(query, query, **ask, engine="fused")
    otherwise = measure(query, query, **ask)
    assert otherwise.engine.startswith("blocked")
    np.testing.assert_allclose(otherwise["entropy_nats"], exact["entropy_nats"], rtol=1e-5)


@pytest.mark.parametrize("shape", [(1, 1, 1, 4096), (1, 1, 4096, 4096)], ids=["of keys", "whole"])
def test_a_mask_takes_no_more_memory_than_it_has(shape: tuple[int, ...]) -> None:
    whole = (2, 8, 4096, 4096)
    bias = torch.zeros(shape)
    added = fused.Added(bias=bias, of_key=None, visible=None, spells_out_order=False, shape=whole)
    for times in (1.0, 2.0):
        given = added.times(times)
        assert given.shape == whole
        assert given.untyped_storage().nbytes() == 4 * np.prod(shape)
