"""Every quantity, found by walking the folder, keeps the promises that all quantities make."""

from __future__ import annotations

import re

import numpy as np
import pytest
from engines.cases import CASES, Case, heads_of
from numpy.testing import assert_allclose

from rootdk import Summary, measure
from rootdk.stats import Quantity
from rootdk.stats.quantity import quantities
from rootdk.stats.statistic import statistics

EVERY = [pytest.param(member, id=name) for name, member in quantities().items()]
EXPECTED = """
    score_mean spread row_spread min_score max_score nonfinite_scores headroom score_histogram
    logsumexp entropy_nats entropy_share max_weight rows_over_50 rows_over_90 rows_over_99
    effective_keys effective_keys_2 first_key_weight empty_rows single_key_rows sample_rows
    jacobian_max jacobian_trace jacobian_norm query_std key_std value_std query_mean key_mean
    query_rms key_rms input_rms projection_gain predicted_spread implied_scale
    rows visible_scores nonfinite_rows
""".split()


def whole(case: Case, rng: np.random.Generator) -> tuple[Case, np.ndarray, np.ndarray]:
    """A case in four dimensions, with a value and an input to go with it."""
    query, key = (x.reshape((1,) * (4 - x.ndim) + x.shape) for x in (case.query, case.key))
    value = rng.normal(size=(*key.shape[:-1], 5))
    inputs = 2.0 * rng.normal(size=(query.shape[0], query.shape[2], 24))
    return Case(query=query, key=key, arguments=case.arguments), value, inputs


def test_the_expected_quantities_are_there() -> None:
    assert set(EXPECTED) <= set(quantities())


@pytest.mark.parametrize("member", EVERY)
def test_it_is_documented(member: Quantity) -> None:
    first, _, rest = member.doc.partition("\n")
    assert first.endswith("."), "the first line is one sentence"
    assert rest.startswith("\n")
    assert re.search(r"^Returns\n-+$", member.doc, re.MULTILINE)
    assert re.search(r"array of float64, shape \(", member.doc), "its shape is stated"
    assert "Unit: " in member.doc
    counts = {"rows", "scores"}
    assert ".. math::" in member.doc or member.unit in counts or member.per_head != "number"
    assert member.unit
    assert member.stage in {"scaled", "biased", "weights", "entries"}


@pytest.mark.parametrize("member", EVERY)
def test_it_says_what_it_needs(member: Quantity) -> None:
    assert member.needs
    assert set(member.needs) <= set(statistics())
    assert member.name in repr(member)


@pytest.mark.parametrize("member", EVERY)
def test_it_is_defined_of_nothing(member: Quantity) -> None:
    nothing = Summary.empty(3)[member.name]
    assert len(nothing) == 3
    if member.per_head == "rows":
        assert nothing == ((), (), ())
    elif member.unit in {"rows", "scores"}:
        assert not np.any(nothing), "a count of nothing is 0"
    else:
        assert np.all(np.isnan(nothing)), "what is no count has no value of nothing"


@pytest.mark.parametrize("member", EVERY)
def test_it_is_measured_alone(member: Quantity, rng: np.random.Generator) -> None:
    case, value, inputs = whole(CASES["causal_top_left"](rng), rng)
    arguments = {**case.arguments, "inputs": inputs}
    everything = measure(case.query, case.key, value, **arguments)
    alone = measure(case.query, case.key, value, **arguments, quantities=[member.name])
    assert member.name in alone.quantities
    if member.per_head == "rows":
        assert_allclose(np.hstack(alone[member.name][0]), np.hstack(everything[member.name][0]))
    else:
        assert_allclose(alone[member.name], everything[member.name], rtol=1e-12, atol=1e-15)
        assert alone[member.name].dtype == np.float64


@pytest.mark.parametrize("engine", ["reference", "blocked"])
@pytest.mark.parametrize("case_name", sorted(set(CASES) - {"bias_lowest"}))
def test_the_formulas_give_the_definitions(
    case_name: str, engine: str, rng: np.random.Generator
) -> None:
    """Sufficient statistics and formula agree with what a loop over scores says directly.

    Not so where a bias is near the lowest float in a whole row: added to it, as the
    definition has it, a score vanishes, while the engine keeps it.
    """
    case, value, inputs = whole(CASES[case_name](rng), rng)
    summary = measure(case.query, case.key, value, **case.arguments, inputs=inputs, engine=engine)
    largest = float(np.finfo(np.float64).max)
    heads = heads_of(case, largest_score=largest, inputs=inputs, value=value)
    assert summary.num_heads == len(heads)
    with np.errstate(all="ignore"):
        for name, member in quantities().items():
            for head, measured in zip(heads, summary[name], strict=True):
                assert_is(member, measured, member.definition(head), size_of(head), name)


def size_of(head: object) -> float:
    """The largest absolute score, or bias, whose rounding shows in everything else."""
    final = head.final[head.visible & np.isfinite(head.final)]
    scores = head.visible_scores
    return max(np.max(np.abs(scores), initial=1.0), min(np.max(np.abs(final), initial=1.0), 1e10))


def assert_is(member: Quantity, measured: object, defined: object, size: float, name: str) -> None:
    # The definitions are naive: they lose what float64 loses on scores of that size.
    tolerance = 256 * np.finfo(np.float64).eps * size
    if member.per_head == "rows":
        known = [row for row in defined if row.size]
        for row in measured:
            assert any(
                row.shape == other.shape and np.allclose(row, other, atol=tolerance)
                for other in known
            ), f"{name}: a sampled row is none of the rows"
        assert len(measured) == min(len(known), 8)
    elif member.per_head == "histogram":
        # A score on an edge may be counted on either side of it.
        assert np.sum(measured) == np.sum(defined)
        apart = np.abs(np.cumsum(measured) - np.cumsum(defined))
        assert np.max(apart) <= max(2, 0.02 * np.sum(defined)), name
    else:
        assert_allclose(measured, defined, rtol=16 * tolerance, atol=tolerance, err_msg=name)
