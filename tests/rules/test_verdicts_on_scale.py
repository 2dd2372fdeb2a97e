"""Severity, declared numbers, place and words of the verdict on the scale."""

import math
from dataclasses import replace

import pytest
from rules.scales import verdict

from rootdk.records import Factor
from rootdk.rules._examples import (
    constant,
    expecting,
    healthy_site,
    line,
    numbers,
    scaled_site,
    through_norm,
)
from rootdk.rules.scale._factors import applications, doubled

MISSING = scaled_site()
SCROLL = "a scroll holds no configuration"
TRAINED_WITH = "though the weights may have been trained with it"
WIDTH = scaled_site(384**-0.5)


def lines(said):
    return said.source.frames[0].line, [source.frames[0].line for source in said.related]


# ------------------------------------------------------------------ declared numbers


@pytest.mark.parametrize("site", [MISSING, WIDTH, scaled_site(0.3), scaled_site(-0.125)])
def test_what_the_user_expects_is_silent(site):
    declared = expecting(site.effective_scale, "expect=", "user")
    assert verdict(replace(site, expected=declared)).code is None


@pytest.mark.parametrize("site", [MISSING, WIDTH, scaled_site(0.3), scaled_site(-0.125)])
def test_what_a_config_declares_is_a_note(site):
    said = verdict(replace(site, expected=expecting(site.effective_scale, "key = 3")))
    assert said.severity == "note"
    assert said.excuse == "declared by key = 3"


@pytest.mark.parametrize("by", ["user", "config"])
@pytest.mark.parametrize(
    ("site", "code"),
    [
        (MISSING, "RDK101"),
        (WIDTH, "RDK103"),
        (healthy_site(), "RDK108"),
        (scaled_site(0.3), "RDK108"),
    ],
)
def test_a_declared_number_that_does_not_hold_is_a_warning_with_both(by, site, code):
    site = replace(site, expected=expecting(0.0625, "key = 256", by), **through_norm(gain=True))
    said = verdict(site, numbers(query_std=0.1))
    assert (said.code, said.severity) == (code, "warning")
    assert f"{site.effective_scale:.6g}" in said.message
    assert "0.0625" in said.message
    assert "key = 256" in said.message
    assert said.evidence["expected_scale"] == 0.0625


@pytest.mark.parametrize(("by", "severity"), [("user", "warning"), ("config", "note")])
def test_a_learned_factor_can_stand_for_what_a_config_declares(by, severity):
    learned = Factor(value=None, place="scores", kind="learned")
    site = scaled_site(learned, expected=expecting(0.0625, "key", by))
    assert verdict(site).severity == severity


def test_a_config_s_standard_scale_says_nothing():
    assert verdict(healthy_site(expected=expecting(0.125, "head_dim"))).code is None


@pytest.mark.parametrize("by", ["user", "config"])
def test_a_declaration_without_a_number_is_a_reason(by):
    said = verdict(replace(WIDTH, expected=expecting(None, "use_mup = True", by)))
    assert said.severity == "note"
    assert "use_mup" in said.message
    assert verdict(healthy_site(expected=expecting(None, "use_mup = True", by))).code is None


# ------------------------------------------------------------------ degenerate scales


@pytest.mark.parametrize("value", [0.0, -0.0, math.nan, math.inf, -math.inf, -0.125])
@pytest.mark.parametrize("state", ["init", "trained"])
def test_a_scale_that_cannot_work_is_an_error(value, state):
    said = verdict(scaled_site(value), state=state)
    assert (said.code, said.severity) == ("RDK108", "error")
    assert "accounts for it" not in said.message


@pytest.mark.parametrize("value", [0.0, math.nan])
def test_nothing_excuses_zero_or_nan(value):
    learned = Factor(value=None, place="scores", kind="learned")
    site = scaled_site(value, learned, expected=expecting(0.125, "key"), **through_norm(gain=True))
    assert verdict(site).severity == "error"


def test_a_negative_scale_stays_an_error_beside_a_declared_positive_one():
    for by in ("user", "config"):
        assert verdict(scaled_site(-0.125, expected=expecting(0.125, "x", by))).severity == "error"


# ------------------------------------------------------------------ varying factors


VARYING = Factor(value=None, place="query", kind="position-dependent", source=line(7))


@pytest.mark.parametrize("constant_part", [0.125, 1.0, 1 / 64, -0.3])
def test_a_varying_factor_has_one_code_for_itself_and_the_constants(constant_part):
    said = verdict(scaled_site(constant_part, VARYING))
    assert (said.code, said.severity) == ("RDK111", "note")
    assert f"{constant_part:.6g}" in said.message
    assert said.source == VARYING.source


def test_a_varying_factor_beside_a_broken_constant_is_an_error():
    assert verdict(scaled_site(0.0, VARYING)).severity == "error"


def test_a_user_s_number_beside_a_varying_factor_is_compared_with_the_constants():
    other = expecting(0.5, "expect=", "user")
    assert verdict(scaled_site(0.125, VARYING, expected=other)).code == "RDK108"
    assert verdict(scaled_site(0.5, VARYING, expected=other)).code is None
    unknown = healthy_site(factors=(VARYING,), effective_scale=None, expected=other)
    assert verdict(unknown).code == "RDK111"


# ------------------------------------------------------------------ twice, and places


def test_the_source_of_a_missing_scale_is_the_product():
    assert lines(verdict(MISSING)) == (11, [])
    assert lines(verdict(replace(MISSING, product_source=None)))[0] == 13


@pytest.mark.parametrize(
    ("factors", "code", "source", "related"),
    [
        ((constant(1 / 64, at=12),), "RDK104", 12, []),
        ((constant(0.125, "query", 9), constant(0.125, "kernel", 13)), "RDK102", 13, [9]),
        ((constant(0.125, "kernel", 13), constant(0.125, "query", 9)), "RDK102", 13, [9]),
        ((constant(0.125, "key", 10), constant(0.125, "query", 9)), "RDK102", 10, [9]),
        ((constant(0.125, "query", 9), constant(0.125, at=12)), "RDK102", 12, [9]),
        ((constant(0.125, at=12), constant(0.125, at=14)), "RDK102", 14, [12]),
        (
            (constant(8**-0.5, "query", 9), constant(8**-0.5, "key", 10), constant(0.125, at=12)),
            "RDK102",
            12,
            [9, 10],
        ),
        ((constant(0.125, "query", 9), constant(64.0, at=12)), "RDK106", 12, [9]),
        ((constant(64.0, "query", 9), constant(0.125, "kernel", 13)), "RDK106", 9, [13]),
        ((constant(0.5, "query", 9), constant(2 / 64, at=12)), "RDK104", 12, [9]),
        ((constant(1 / 64, "query", 9), constant(1.0, "kernel", 13)), "RDK104", 9, []),
        ((constant(0.125, "query", 9), constant(6**-0.5, at=12)), "RDK103", 12, [9]),
    ],
)
def test_the_guilty_factor_is_named_and_the_others_are_related(factors, code, source, related):
    said = verdict(scaled_site(*factors))
    assert said.code == code
    assert lines(said) == (source, related)


def test_without_lines_the_order_of_the_record_decides():
    bare = [
        replace(constant(0.125, place, at), source=None) for place, at in (("key", 1), ("query", 2))
    ]
    site = scaled_site(*bare)
    pair = doubled(site)
    assert [a.factors[0].place for a in pair] == ["key", "query"]
    assert verdict(site).source == site.product_source


def test_halves_are_one_application_and_wholes_are_two():
    halves = scaled_site(constant(8**-0.5, "query"), constant(8**-0.5, "key"))
    wholes = scaled_site(constant(0.125, "query"), constant(0.125, "key"))
    assert len(applications(halves)) == 1
    assert len(applications(wholes)) == 2
    assert doubled(halves) is None


def test_unequal_halves_are_not_halves():
    site = scaled_site(constant(0.5, "query"), constant(0.25, "key"))
    assert len(applications(site)) == 2
    assert verdict(site).code is None


def test_a_factor_and_its_inverse_beside_the_scale_are_silent():
    layers = (constant(1 / 3, "query", 9), constant(0.125, at=12), constant(3.0, at=13))
    assert verdict(scaled_site(*layers)).code is None


def test_both_factors_and_all_numbers_are_in_the_evidence():
    said = verdict(
        scaled_site(constant(0.125, "query", 9, "self.scale"), constant(0.125, "kernel"))
    )
    assert len(said.evidence["factors"]) == 2
    assert "0.125 on the query (self.scale) at model.py:9" in said.evidence["factors"]
    assert said.evidence["effective_scale"] == 1 / 64


# ------------------------------------------------------------------ words


@pytest.mark.parametrize(
    ("site", "words"),
    [
        (scaled_site(0.125 * math.log2(math.e)), "log2(e)"),
        (scaled_site(0.125 / 5, layer=4), "1/(layer + 1)"),
        (scaled_site(0.125 / 4, layer=4, head_dim=65), "1/layer"),
        (scaled_site(192**-0.5), "1/√192 = "),
        (scaled_site(3.0), "√9 = 3"),
    ],
)
def test_a_number_with_a_name_is_named(site, words):
    if site.head_dim == 65:
        site = replace(site, effective_scale=65**-0.5 / 4)
    assert words in verdict(site).message


def test_the_sentence_that_users_read():
    assert verdict(MISSING).message == (
        "scores are multiplied by 1, not 1/√64 = 0.125 (8 times the standard scale); "
        "nothing in graph, config or entries accounts for it"
    )


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("init", "; nothing in graph or entries accounts for it; a scroll holds no configuration"),
        (
            "trained",
            f"; nothing in the graph accounts for it, {TRAINED_WITH}; {SCROLL}",
        ),
    ],
)
def test_where_no_configuration_could_be_it_is_not_said_to_be_silent(state, words):
    said = verdict(replace(MISSING, unconfigured=SCROLL), state=state)
    assert said.message.endswith(f"{words} that could declare it")
    assert said.declare.endswith(f"declare it: --expect '{MISSING.name}=1'.")


@pytest.mark.parametrize(
    "changes",
    [
        {"unconfigured": None},
        {"expected": expecting(1.0, "key = 1")},
        {"expected": expecting(0.5, "expect=", "user")},
        {"effective_scale": -0.125},
        through_norm(gain=True),
    ],
)
def test_how_to_declare_is_told_only_where_it_would_help(changes):
    site = replace(MISSING, **({"unconfigured": SCROLL} | changes))
    assert verdict(site).declare is None
