"""What accounts for a scale that is not 1/√head_dim, and what does not."""

import math
from dataclasses import replace

import pytest
from rules.scales import verdict

from rootdk.records import Factor, OperandPath
from rootdk.rules import classify
from rootdk.rules._examples import healthy_site, line, numbers, scaled_site, through_norm

MISSING = scaled_site()
WIDTH = scaled_site(384**-0.5)


# ------------------------------------------------------------------ excuses: the entries


@pytest.mark.parametrize(
    ("share", "severity"),
    [(1.0, "warning"), (0.25, "warning"), (0.19, "warning"), (0.1874, "note"), (0.125, "note")],
)
def test_projections_carry_the_scale_up_to_one_and_a_half_over_the_root(share, severity):
    assert verdict(MISSING, numbers(query_std=share)).severity == severity


@pytest.mark.parametrize("size", [0.01, 1.0, 50.0])
def test_the_size_of_all_entries_together_does_not_matter(size):
    small = numbers(query_std=size / 8, key_std=size, value_std=size)
    alike = numbers(query_std=size, key_std=size, value_std=size)
    assert verdict(MISSING, small).severity == "note"
    assert verdict(MISSING, alike).severity == "warning"


def test_the_values_tell_that_both_projections_are_small():
    small = numbers(query_std=64**-0.25, key_std=64**-0.25, value_std=1.0)
    assert verdict(MISSING, small).severity == "note"
    assert verdict(MISSING, numbers(query_std=0.35, key_std=0.35, value_std=None)).code == "RDK101"


def test_trained_entries_excuse_nothing():
    said = verdict(MISSING, numbers(query_std=0.1), state="trained")
    assert said.severity == "warning"
    assert "entries" not in said.message
    assert "may have been trained with it" in said.message


def test_entries_must_carry_all_of_a_larger_deviation():
    inverted = scaled_site(8.0)
    assert verdict(inverted, numbers(query_std=1 / 8)).severity == "warning"
    assert verdict(inverted, numbers(query_std=1 / 64)).severity == "note"


def test_small_entries_do_not_excuse_a_small_scale():
    assert verdict(WIDTH, numbers(query_std=0.01)).severity == "warning"


@pytest.mark.parametrize("head_dim", [2, 3])
def test_ordinary_entries_excuse_nothing_at_a_tiny_width(head_dim):
    said = verdict(scaled_site(head_dim=head_dim, num_heads=7), numbers(query_std=0.95))
    assert said.severity == "warning"


def test_heads_are_pooled_and_a_head_without_a_value_is_passed_over():
    one_large = numbers(query_std=(0.1, 0.1, 0.1, 0.1, 0.1, math.nan))
    assert verdict(MISSING, one_large).severity == "note"


@pytest.mark.parametrize("entries", [0.0, math.inf])
def test_entries_without_a_size_excuse_nothing(entries):
    measured = numbers(query_std=entries, key_std=entries, value_std=entries)
    assert verdict(MISSING, measured).severity == "warning"


def test_without_entries_a_missing_scale_of_a_new_model_cannot_be_judged():
    assert "entries" in classify(MISSING, None, "init").why_not
    assert classify(MISSING, None, "trained").severity == "warning"
    assert classify(WIDTH, None, "init").severity == "warning"
    assert "query_std" in verdict(MISSING, numbers(query_std=None)).why_not


# ------------------------------------------------------------------ excuses: the graph


@pytest.mark.parametrize("side", ["query_path", "key_path"])
@pytest.mark.parametrize("site", [MISSING, WIDTH, scaled_site(1 / 64), scaled_site(0.07)])
@pytest.mark.parametrize("state", ["init", "trained"])
def test_a_norm_with_a_gain_on_either_side_excuses_any_scale(side, site, state):
    path = OperandPath(terminal="norm", normalised=True, learned_gain=True)
    said = verdict(replace(site, **{side: path}), state=state)
    assert said.severity == "note"
    assert f"the {side[:-5]} passed a norm with a learned gain" in said.excuse


def test_a_gain_without_a_norm_is_no_norm():
    path = OperandPath(terminal="projection", learned_gain=True)
    assert verdict(replace(MISSING, query_path=path)).severity == "warning"


@pytest.mark.parametrize(
    ("site", "rms", "severity"),
    [
        (scaled_site(10.0, **through_norm(gain=False)), 1 / 8, "note"),
        (scaled_site(10.0, **through_norm(gain=False)), 1.0, "warning"),
        (scaled_site(1 / 64, **through_norm(gain=False)), 1 / 8, "warning"),
        (scaled_site(**through_norm(gain=False)), 1 / 8, "note"),
    ],
)
def test_unit_vectors_need_a_larger_scale_and_no_smaller_one(site, rms, severity):
    unit = numbers(query_rms=rms, key_rms=rms)
    for state in ("init", "trained"):
        assert verdict(site, unit, state=state).severity == severity


def test_one_normalised_side_without_a_gain_excuses_nothing():
    site = replace(MISSING, key_path=OperandPath(terminal="norm", normalised=True))
    assert verdict(site, numbers(key_rms=1 / 8)).severity == "warning"


@pytest.mark.parametrize("place", ["query", "key", "scores", "kernel"])
def test_a_learned_factor_before_the_softmax_excuses(place):
    factor = Factor(value=None, place=place, kind="learned", source=line(8), origin="temperature")
    said = verdict(scaled_site(1 / 64, factor))
    assert said.severity == "note"
    assert "temperature" in said.excuse
    assert "model.py:8" in said.excuse


def test_a_learned_factor_behind_the_softmax_excuses_nothing():
    assert verdict(scaled_site(Factor(value=None, place="weights", kind="learned"))).severity == (
        "warning"
    )


@pytest.mark.parametrize(("terms", "severity"), [(2, "warning"), (3, "note"), (4, "warning")])
def test_terms_are_counted(terms, severity):
    said = verdict(scaled_site(192**-0.5, score_terms=terms), state="trained")
    assert (said.code, said.severity) == ("RDK108", severity)


def test_terms_of_the_standard_size_are_left_alone():
    assert verdict(healthy_site(score_terms=3)).code is None
