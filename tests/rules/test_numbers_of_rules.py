"""Where the rules outside the scale family draw their lines, and how they read real summaries."""

from math import inf, nan

import numpy as np
import pytest

from rootdk.records import Addend, Normalisation, Observed
from rootdk.rules import NotJudged, judge, rule
from rootdk.rules._evidence import (
    measured,
    median_over_heads,
    pooled_over_heads,
    share_over_heads,
)
from rootdk.rules._examples import healthy_site, numbers
from rootdk.stats import Summary
from rootdk.stats.quantity import quantities

NAME = healthy_site().name


def severities(code, site=None, summary=None, state="init"):
    """The severities of one rule's findings, or ``"skipped"``."""
    given = {NAME: numbers() if summary is None else summary}
    findings, skipped = judge(
        [site or healthy_site()], given, state, rules=[rule(code)], select=[code]
    )
    return "skipped" if skipped else [finding.severity.value for finding in findings]


@pytest.mark.parametrize(
    ("code", "quantity", "at", "beyond"),
    [
        ("RDK201", "predicted_spread", 3.0, 3.01),
        ("RDK202", "predicted_spread", 1e-3, 0.99e-3),
        ("RDK203", "spread", 4.0, 4.01),
        ("RDK203", "spread", 0.25, 0.249),
        ("RDK601", "rows_over_90", 0.5, 0.501),
        ("RDK605", "rows_over_99", 0.5, 0.501),
        ("RDK307", "headroom", 8.0, 7.99),
    ],
)
def test_the_line_is_where_the_page_says(code, quantity, at, beyond):
    assert severities(code, summary=numbers(**{quantity: at})) == []
    assert len(severities(code, summary=numbers(**{quantity: beyond}))) == 1


@pytest.mark.parametrize(("share", "count"), [(0.9999, 0), (0.99991, 1)])
def test_the_line_of_uniform_weights(share, count):
    summary = numbers(entropy_share=share)
    assert len(severities("RDK602", summary=summary, state="trained")) == count


@pytest.mark.parametrize(
    ("heads", "count"),
    [((8, 1, 1), 0), ((8.1, 1, 1), 1), ((1, 1, 0.12), 1), ((1, 1, 0.126), 0), ((9, 1), 0)],
)
def test_the_line_of_uneven_heads(heads, count):
    site = healthy_site(num_heads=len(heads), num_kv_heads=1)
    summary = numbers(heads=len(heads), row_spread=heads)
    assert len(severities("RDK204", site, summary)) == count


def test_the_furthest_of_several_uneven_heads_is_quoted():
    summary = numbers(row_spread=(1.0, 1.0, 10.0, 1.0, 1.0, 0.01))
    (finding,), _ = judge([healthy_site()], {NAME: summary}, "init", select=["RDK204"])
    assert "head 5" in finding.message
    assert finding.evidence["heads"] == (2, 5)


@pytest.mark.parametrize(
    ("size", "gain", "words"),
    [
        (3.0, 0.9, "input of the projections, of size 3 makes"),
        (0.6, 3.0, "gain of 3 makes"),
        (1.7, 1.6, "of size 1.7, and the projections' gain of 1.6 make them so"),
    ],
)
def test_what_makes_entries_large_is_named(size, gain, words):
    summary = numbers(predicted_spread=9.0, spread=9.0, input_rms=size, projection_gain=gain)
    (finding,), _ = judge([healthy_site()], {NAME: summary}, "init")
    assert words in finding.message
    assert finding.evidence["input_rms"] == size


@pytest.mark.parametrize(
    ("dtype", "argument", "severity"),
    [
        ("float32", 44.3, "warning"),
        ("float32", 44.4, "error"),
        ("float16", 5.5, "warning"),
        ("float16", 5.6, "error"),
        ("bfloat16", 44.3, "warning"),
        ("float64", 300.0, "warning"),
        ("float64", 355.0, "error"),
        ("float32", inf, "error"),
    ],
)
def test_half_of_the_way_to_overflow_is_an_error(dtype, argument, severity):
    how = Normalisation(exponentials="bare", largest_exponent=argument, dtype=dtype)
    assert severities("RDK302", healthy_site(normalisation=how)) == [severity]


@pytest.mark.parametrize(
    ("dtype", "off", "count"),
    [
        ("float32", 0.9e-3, 0),
        ("float32", 1.1e-3, 1),
        ("bfloat16", 0.03, 0),
        ("bfloat16", 0.04, 1),
        ("float16", 3.8e-3, 0),
        ("float16", 4e-3, 1),
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_the_sum_of_a_row_is_as_exact_as_its_dtype(dtype, off, count, sign):
    low, high = sorted((1.0, 1.0 + sign * off))
    observed = Observed(row_sum_min=low, row_sum_max=high)
    for changes in ({"normalisation": Normalisation(dtype=dtype)}, {"score_dtype": dtype}):
        assert len(severities("RDK303", healthy_site(observed=observed, **changes))) == count


@pytest.mark.parametrize(
    ("raw", "severity"),
    [(8188.0, []), (8189.0, ["warning"]), (65504.0, ["warning"]), (65600.0, ["error"])],
)
def test_headroom_in_float16(raw, severity):
    site = healthy_site(score_dtype="float16", observed=Observed(largest_raw_score=raw))
    assert severities("RDK307", site, numbers(headroom=None)) == severity


def test_scores_that_are_all_zero_have_room():
    site = healthy_site(score_dtype="float16", observed=Observed(largest_raw_score=0.0))
    assert severities("RDK307", site, numbers(headroom=inf)) == []


@pytest.mark.parametrize(
    ("dtype", "fill", "count"),
    [
        ("float32", -inf, 0),
        ("float32", float(np.finfo(np.float32).min), 0),
        ("float32", -1e30, 0),
        ("float32", -1e9, 1),
        ("float32", -65504.0, 1),
        ("float16", -65504.0, 0),
        ("bfloat16", -3.38953e38, 0),
        ("float32", None, 0),
    ],
)
def test_a_scaled_fill_that_stands_for_infinity_is_left_alone(dtype, fill, count):
    mask = Addend(kind="mask", fill=fill, multiplied_by=0.125)
    site = healthy_site(addends=(mask,), score_dtype=dtype)
    assert severities("RDK405", site) == ["error"] * count


def test_each_scaled_addend_is_said():
    addends = (
        Addend(kind="mask", fill=-5.0, multiplied_by=0.125),
        Addend(kind="bias", multiplied_by=0.125),
        Addend(kind="term", multiplied_by=0.125),
    )
    assert severities("RDK405", healthy_site(addends=addends)) == ["error", "note"]


@pytest.mark.parametrize(("leak", "count"), [(0.0, 0), (1e-6, 0), (1.1e-6, 1)])
def test_a_leak_is_more_than_a_millionth(leak, count):
    observed = Observed(forbidden_weight=leak)
    assert len(severities("RDK402", healthy_site(observed=observed))) == count


def test_the_mask_with_the_largest_fill_is_the_one_that_leaks():
    addends = (Addend(kind="mask", fill=-inf), Addend(kind="mask", fill=-2.5))
    site = healthy_site(addends=addends, observed=Observed(forbidden_weight=0.1))
    (finding,), _ = judge([site], {NAME: numbers()}, "init")
    assert "adds -2.5, which is not far enough below" in finding.message


# ------------------------------------------------------------------ reading numbers


def test_heads_without_a_value_are_passed_over():
    summary = numbers(heads=3, row_spread=(1.0, nan, 3.0))
    assert median_over_heads(summary, "row_spread") == 2.0
    assert share_over_heads(summary, "row_spread") == 2.0
    assert pooled_over_heads(summary, "row_spread") == pytest.approx(5.0**0.5)


@pytest.mark.parametrize("value", [nan, None])
def test_a_quantity_without_any_value_is_not_judged(value):
    with pytest.raises(NotJudged, match="row_spread"):
        measured(numbers(row_spread=value), "row_spread")


def test_the_stand_in_knows_only_names_that_summaries_know():
    assert set(numbers().quantities) <= set(quantities())


def test_the_summary_of_nothing_leaves_its_rules_unjudged():
    nothing = {NAME: Summary.empty(num_heads=6)}
    findings, skipped = judge([healthy_site()], nothing, "trained")
    assert findings == ()
    reasons = {skip.code: skip.why for skip in skipped}
    for code in ("RDK201", "RDK202", "RDK203", "RDK204", "RDK601", "RDK602", "RDK605"):
        assert "has no value at any head" in reasons[code]


def test_a_summary_says_why_a_quantity_is_absent():
    partial = {NAME: Summary.empty(num_heads=6, quantities=["spread"])}
    _, skipped = judge([healthy_site()], partial, "init", select=["RDK601"])
    assert "it was not among the quantities asked for" in skipped[0].why
