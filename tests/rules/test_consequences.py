"""One fault, one code: which findings are dropped as consequences of which, and when."""

from math import inf, nan

import pytest

from rootdk.records import Addend, Factor, Normalisation, Observed, Severity
from rootdk.rules import all_rules, judge
from rootdk.rules._examples import (
    constant,
    healthy_site,
    line,
    numbers,
    scaled_site,
    through_norm,
)

STUCK = {"rows_over_50": 1.0, "rows_over_90": 0.9, "rows_over_99": 0.8}
FLAT = {"entropy_share": 1.0}


def found(site, summary=None, state="init", **options):
    summaries = {site.name: numbers() if summary is None else summary}
    findings, skipped = judge([site], summaries, state, **options)
    return [f"{finding.code} {finding.severity}" for finding in findings], skipped


@pytest.mark.parametrize("state", ["init", "trained"])
@pytest.mark.parametrize(
    ("site", "said"),
    [
        (scaled_site(), "RDK101 warning"),
        (scaled_site(8.0), "RDK106 warning"),
        (scaled_site(0.3), "RDK108 warning"),
        (scaled_site(**through_norm(gain=True)), "RDK101 note"),
    ],
)
def test_a_scale_explains_saturation_and_a_dead_gradient(site, said, state):
    codes, skipped = found(site, numbers(**STUCK), state)
    assert codes == [said]
    why = {skip.code: skip.why for skip in skipped}
    assert why["RDK601"] == f"a consequence of {said[:6]} {_name(said[:6])} at the same site"
    assert why["RDK605"] == why["RDK601"]


def _name(code):
    return next(rule.name for rule in all_rules() if rule.code == code)


@pytest.mark.parametrize(
    ("site", "said"),
    [
        (scaled_site(1 / 64), "RDK104 warning"),
        (scaled_site(constant(0.125, "query"), constant(0.125)), "RDK102 warning"),
        (scaled_site(0.0), "RDK108 error"),
    ],
)
def test_a_scale_explains_uniform_weights_and_small_scores(site, said):
    summary = numbers(**FLAT, predicted_spread=1e-4, spread=1e-4, row_spread=1e-4)
    assert found(site, summary, "trained")[0] == [said]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"query_std": 4.0, "predicted_spread": 4.0, "spread": 4.0}, "RDK201 warning"),
        ({"spread": 9.0}, "RDK203 note"),
        ({"row_spread": (9.0, 1, 1, 1, 1, 1)}, "RDK204 note"),
    ],
)
def test_entries_explain_saturation_and_a_dead_gradient(changes, said):
    assert found(healthy_site(), numbers(**STUCK, **changes))[0] == [said]


@pytest.mark.parametrize(("state", "severity"), [("init", "warning"), ("trained", "note")])
def test_a_dead_gradient_without_a_cause_is_said_once(state, severity):
    assert found(healthy_site(), numbers(**STUCK), state)[0] == [f"RDK605 {severity}"]
    less = numbers(**{**STUCK, "rows_over_99": 0.1})
    assert found(healthy_site(), less, state)[0] == [f"RDK601 {severity}"]


def test_a_scale_that_went_behind_the_softmax_is_not_missing_as_well():
    sums = Observed(row_sum_min=0.125, row_sum_max=0.125)
    site = scaled_site(constant(0.125, "weights", at=14), observed=sums)
    assert found(site)[0] == ["RDK109 error"]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (Normalisation(axis="queries"), "RDK301 error"),
        (Normalisation(axis="other"), "RDK301 warning"),
        (Normalisation(softmax_again=line(15)), "RDK305 error"),
        (Normalisation(mask_after=line(15)), "RDK406 error"),
    ],
)
def test_rows_that_do_not_sum_to_one_have_a_cause(how, said):
    observed = Observed(row_sum_min=0.2, row_sum_max=1.7)
    assert found(healthy_site(normalisation=how, observed=observed))[0] == [said]
    assert found(healthy_site(observed=observed))[0] == ["RDK303 error"]


@pytest.mark.parametrize(
    ("how", "addends", "said"),
    [
        (Normalisation(softmax_again=line(15)), (), "RDK305 error"),
        (Normalisation(mask_after=line(15)), (), "RDK406 error"),
        (Normalisation(), (Addend(kind="mask", fill=-9.0, multiplied_by=0.125),), "RDK405 error"),
        (Normalisation(), (Addend(kind="mask", fill=-9.0),), "RDK402 error"),
    ],
)
def test_a_leak_has_one_cause(how, addends, said):
    observed = Observed(forbidden_weight=0.1, row_sum_min=0.5, row_sum_max=0.9)
    site = healthy_site(normalisation=how, addends=addends, observed=observed)
    codes = [code for code in found(site)[0] if not code.startswith("RDK303")]
    assert codes == [said]


def test_a_scaled_bias_explains_no_leak():
    addends = (Addend(kind="bias", multiplied_by=0.125), Addend(kind="mask", fill=-1e-9))
    site = healthy_site(addends=addends, observed=Observed(forbidden_weight=0.1))
    assert found(site)[0] == ["RDK402 error", "RDK405 note"]


def test_an_overflow_explains_infinite_scores():
    observed = Observed(
        largest_raw_score=inf,
        nonfinite_scores=3,
        nonfinite_inputs=0,
        row_sum_min=0.5,
        row_sum_max=1.0,
    )
    site = healthy_site(score_dtype="float16", observed=observed)
    assert found(site, numbers(headroom=None))[0] == ["RDK307 error"]


def test_a_small_headroom_does_not_explain_nan():
    observed = Observed(largest_raw_score=2e4, nonfinite_scores=3, nonfinite_inputs=0)
    site = healthy_site(score_dtype="float16", observed=observed)
    assert found(site, numbers(headroom=None))[0] == ["RDK606 error", "RDK307 warning"]


def test_nan_among_the_entries_explains_every_number_of_the_site():
    observed = Observed(
        nonfinite_scores=480,
        nonfinite_inputs=64,
        forbidden_weight=0.5,
        row_sum_min=0.0,
        row_sum_max=0.5,
        empty_rows_nan=3,
        largest_raw_score=nan,
    )
    how = Normalisation(exponentials="bare", largest_exponent=nan)
    summary = numbers(**STUCK, spread=9.0, row_spread=(99, 1, 1, 1, 1, 1))
    site = healthy_site(observed=observed, normalisation=how)
    assert found(site, summary)[0] == ["RDK606 error"]


def test_faults_of_the_graph_stand_beside_each_other():
    bare = Normalisation(exponentials="bare", largest_exponent=1.0)
    site = scaled_site(normalisation=bare, dropout=0.1)
    assert found(site)[0] == ["RDK607 error", "RDK101 warning", "RDK302 warning"]


def test_a_consequence_is_dropped_even_where_its_cause_is_not_asked_for():
    assert found(scaled_site(), numbers(**STUCK), select=["RDK6"])[0] == []
    assert found(scaled_site(), numbers(**STUCK), ignore=["RDK101"])[0] == []


def test_a_cause_at_one_site_explains_nothing_at_another():
    sites = [scaled_site(name="one"), healthy_site(name="two")]
    findings, _ = judge(sites, {"one": numbers(), "two": numbers(**STUCK)}, "init")
    assert [(finding.site, finding.code) for finding in findings] == [
        ("one", "RDK101"),
        ("two", "RDK605"),
    ]


def test_a_varying_factor_is_one_note_whatever_else_excuses():
    varying = Factor(value=None, place="query", kind="position-dependent")
    site = scaled_site(1 / 64, varying, **through_norm(gain=True))
    assert found(site, state="trained")[0] == ["RDK111 note"]


def test_every_rule_of_the_scale_explains_what_a_scale_does():
    scale = [rule for rule in all_rules() if "judge_scale" in rule.judging]
    assert all({"RDK601", "RDK602", "RDK605"} <= set(rule.supersedes) for rule in scale)
    assert all(set(rule.supersedes_when) == set(Severity) for rule in scale)
