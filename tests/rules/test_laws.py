"""Which law a number is taken to follow: each law by itself, ties, tolerances, two lengths."""

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from rules.scales import as_bfloat16, verdict

from rootdk.rules import ambiguous
from rootdk.rules._examples import constant, healthy_site, scaled_site
from rootdk.rules.scale._laws import candidates, closed_form, laws, tolerance

# What each law multiplies by, written from the definition and not from the code under test.
LAWS = {
    "RDK101": [lambda s: 1.0],
    "RDK104": [lambda s: 1.0 / s.head_dim, lambda s: 2.0 / s.head_dim],
    "RDK103": [
        lambda s: 1.0 / math.sqrt(s.num_heads * s.head_dim),
        lambda s: 1.0 / math.sqrt(s.hidden),
    ],
    "RDK107": [
        lambda s: 1.0 / math.sqrt(s.num_heads),
        lambda s: 1.0 / math.sqrt(s.num_kv_heads),
    ],
    "RDK105": [
        lambda s: 1.0 / math.sqrt(s.keys),
        lambda s: 1.0 / math.sqrt(s.queries),
        lambda s: 1.0 / s.keys,
        lambda s: 1.0 / s.queries,
    ],
    "RDK106": [
        lambda s: math.sqrt(s.head_dim),
        lambda s: float(s.head_dim),
        lambda s: s.head_dim / 2.0,
        lambda s: math.sqrt(s.num_heads * s.head_dim),
        lambda s: math.sqrt(s.hidden),
    ],
}
STANDARD = lambda s: 1.0 / math.sqrt(s.head_dim)  # noqa: E731
CASES = [(code, law) for code, several in LAWS.items() for law in several]


@st.composite
def sites(draw):
    """A site whose sizes are all different, and its sizes at another length."""
    kv_heads = draw(st.integers(2, 16))
    heads = kv_heads * draw(st.integers(2, 8))
    head_dim = draw(st.integers(5, 320))
    hidden = draw(st.integers(100, 9000))
    queries, keys, more = draw(st.lists(st.integers(2, 5000), min_size=3, max_size=3, unique=True))
    sizes = [kv_heads, heads, head_dim, hidden, queries, keys, heads * head_dim]
    assume(len(set(sizes)) == len(sizes))
    site = healthy_site(
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        hidden=hidden,
        queries=queries,
        keys=keys,
    )
    return site, replace(site, queries=queries + more, keys=keys + more)


def scaled(site, value):
    return replace(site, factors=(constant(value),), effective_scale=value)


def clear_of_others(site, value, mine):
    """Whether no law of another code gives a number within four tolerances of this one."""
    others = [law(site) for code, law in CASES if code != mine]
    others += [STANDARD(site)] if mine else []
    return all(abs(value - other) > 4e-3 * other for other in others)


@pytest.mark.parametrize(
    ("code", "which"), [(code, i) for code, several in LAWS.items() for i in range(len(several))]
)
@given(sizes=sites())
def test_each_law_is_told_by_its_number(code, which, sizes):
    site, _ = sizes
    value = LAWS[code][which](site)
    assume(clear_of_others(site, value, code))
    said = verdict(scaled(site, value))
    assert said.code == code
    assert said.severity == "warning"
    assert f"{said.evidence['ratio']:.4g} times" in said.message


@given(sizes=sites())
def test_the_standard_scale_is_silent(sizes):
    site, _ = sizes
    said = verdict(scaled(site, STANDARD(site)))
    assert (said.code, said.severity, said.why_not) == (None, None, None)


@given(sizes=sites(), factor=st.floats(1.01, 30.0))
def test_a_number_of_no_law_is_unexplained(sizes, factor):
    site, _ = sizes
    value = STANDARD(site) * factor
    assume(clear_of_others(site, value, None))
    assume(not candidates(scaled(site, value)))
    assert verdict(scaled(site, value)).code == "RDK108"


@given(
    sizes=sites(),
    scale=st.floats() | st.none(),
    precision=st.floats(0, 1) | st.just(math.nan),
    kind=st.sampled_from(["constant", "learned", "position-dependent"]),
    state=st.sampled_from(["init", "trained"]),
    terms=st.integers(1, 4),
    head_dim=st.integers(0, 3) | st.just(64),
)
def test_no_number_raises(sizes, scale, precision, kind, state, terms, head_dim):
    site, other = sizes
    factor = replace(constant(0.5), value=scale, kind=kind)
    changes = {
        "effective_scale": scale,
        "scale_precision": precision,
        "factors": (factor, factor),
        "score_terms": terms,
        "head_dim": head_dim,
    }
    said = verdict(replace(site, **changes), state=state, other_site=replace(other, **changes))
    assert (said.code is None) == (said.severity is None)
    if said.code is not None:
        assert said.message
        assert said.source is not None


# ------------------------------------------------------------------ tolerance


@pytest.mark.parametrize(("off", "code"), [(9e-4, None), (1.1e-3, "RDK108")])
@pytest.mark.parametrize("sign", [1, -1])
def test_one_in_a_thousand_is_the_tolerance(off, code, sign):
    assert verdict(scaled_site(0.125 * (1 + sign * off))).code == code


def test_a_constant_that_was_stored_in_bfloat16_has_the_tolerance_of_bfloat16():
    exact = 112**-0.5
    stored = as_bfloat16(exact)
    assert abs(stored / exact - 1) > 1e-3, "the case would show nothing"
    site = scaled_site(stored, head_dim=112)
    assert verdict(replace(site, scale_precision=2.0**-7)).code is None
    assert verdict(site).code == "RDK108"
    assert tolerance(replace(site, scale_precision=2.0**-7)) == 4 * 2.0**-7


@pytest.mark.parametrize("code", ["RDK101", "RDK103", "RDK104", "RDK106", "RDK107"])
def test_laws_are_told_from_constants_in_bfloat16_too(code):
    site = healthy_site(head_dim=96, num_heads=8, num_kv_heads=2, hidden=768, scale_precision=2**-7)
    assert verdict(scaled(site, as_bfloat16(LAWS[code][0](site)))).code == code


def test_a_float32_precision_widens_nothing():
    assert tolerance(healthy_site(scale_precision=2.0**-23)) == 1e-3


# ------------------------------------------------------------------ coincidences


@pytest.mark.parametrize(
    ("value", "sizes", "code", "also"),
    [
        (1 / 64, {"keys": 64}, "RDK104", {"RDK105"}),
        (1 / 64, {"num_heads": 64, "hidden": 4096}, "RDK104", {"RDK103"}),
        (2 / 64, {"num_heads": 16, "hidden": 1024}, "RDK103", {"RDK104"}),
        (384**-0.5, {"keys": 384}, "RDK103", {"RDK105"}),
        (384**-0.5, {"num_kv_heads": 384}, "RDK103", {"RDK107"}),
        (6**-0.5, {"keys": 6}, "RDK107", {"RDK105"}),
        (32.0, {"num_heads": 16}, "RDK106", set()),
        (0.125, {"head_dim": 16, "hidden": 96, "layer": 1}, "RDK108", set()),
        (0.125, {"head_dim": 16, "hidden": 96, "layer": 0}, "RDK104", set()),
        (1.0, {"keys": 1}, "RDK101", {"RDK105"}),
        (1.0, {"num_heads": 1, "num_kv_heads": 1}, "RDK101", set()),
        (1.0, {"head_dim": 2}, "RDK101", {"RDK104", "RDK106"}),
    ],
)
def test_where_a_number_fits_several_laws_the_first_is_taken(value, sizes, code, also):
    said = verdict(scaled_site(value, **sizes))
    assert said.code == code
    assert {law.code for law in said.candidates} - {code} == also
    assert all(law.formula in str(said.evidence["candidates"]) for law in said.candidates)


@pytest.mark.parametrize(
    "sizes",
    [
        {"num_heads": 64},
        {"num_kv_heads": 64},
        {"keys": 64},
        {"queries": 64},
        {"keys": 8},
        {"num_heads": 1, "num_kv_heads": 1, "hidden": 64},
        {"hidden": 64},
        {"head_dim": 1, "effective_scale": 1.0},
        {"head_dim": 4, "effective_scale": 0.5},
    ],
    ids=str,
)
def test_a_scale_that_is_right_is_right_whatever_else_it_fits(sizes):
    assert verdict(healthy_site(**sizes)).code is None


def test_twice_is_taken_before_other_laws_of_the_same_number():
    site = scaled_site(constant(0.125, "query"), constant(0.125, "kernel"), keys=64)
    said = verdict(site)
    assert said.code == "RDK102"
    assert "also fits 1/keys" in said.message


# ------------------------------------------------------------------ another length


@pytest.mark.parametrize(
    ("value", "sizes", "open_"),
    [
        (1 / 64, {"keys": 64}, True),
        (0.125, {"keys": 64}, True),
        (1.0, {"keys": 1}, True),
        (6**-0.5, {"queries": 6}, True),
        (1 / 64, {}, False),
        (24**-0.5, {}, False),
        (24**-0.5, {"queries": 24}, False),
        (0.125, {}, False),
        (1 / 12, {}, False),
    ],
)
def test_another_length_helps_where_a_length_is_one_of_several(value, sizes, open_):
    assert ambiguous(scaled_site(value, **sizes)) is open_


@pytest.mark.parametrize(
    ("here", "there", "code"),
    [
        ((1 / 64, 64), (1 / 64, 40), "RDK104"),
        ((1 / 64, 64), (1 / 40, 40), "RDK105"),
        ((0.125, 64), (0.125, 40), None),
        ((0.125, 64), (40**-0.5, 40), "RDK105"),
        ((1.0, 1), (1.0, 40), "RDK101"),
        ((1.0, 1), (40**-0.5, 40), "RDK105"),
        ((6**-0.5, 6), (9**-0.5, 9), "RDK105"),
        ((0.125, 64), (0.2, 40), "RDK108"),
    ],
)
def test_only_what_fits_at_both_lengths_stays(here, there, code):
    site, other = (scaled_site(value, keys=keys) for value, keys in (here, there))
    said = verdict(site, other_site=other)
    assert said.code == code
    if code == "RDK105":
        assert f"{there[1]} keys it was {there[0]:.6g}" in said.message


def test_a_number_that_is_right_here_and_follows_nothing_there_says_both():
    site, other = scaled_site(0.125, keys=64), scaled_site(0.2, keys=40)
    message = verdict(site, other_site=other).message
    assert "1/√64 = 0.125 at this length only" in message
    assert "40 keys it was 0.2" in message


def test_an_unresolved_other_run_changes_nothing():
    site = scaled_site(1 / 64, keys=64)
    other = replace(site, effective_scale=None)
    assert verdict(site, other_site=other).code == "RDK104"
    assert len(candidates(site, other)) == len(candidates(site))


# ------------------------------------------------------------------ small parts


def test_laws_of_a_width_of_one_are_left_out_and_of_a_length_of_one_are_not():
    formulas = [law.formula for law in laws(healthy_site(num_heads=1, keys=1))]
    assert "1/√num_heads" not in formulas
    assert "1/√keys" in formulas


def test_laws_without_a_hidden_width():
    formulas = [law.formula for law in laws(healthy_site(hidden=None))]
    assert not any("hidden" in formula for formula in formulas)


@pytest.mark.parametrize(
    ("scale", "text"),
    [(0.0, None), (-0.5, None), (math.nan, None), (math.inf, None), (1e-9, None), (1e9, None)],
)
def test_numbers_without_a_closed_form(scale, text):
    assert closed_form(scale) is text


def test_a_scale_without_a_head_dim_cannot_be_judged():
    assert "head_dim is 0" in verdict(healthy_site(head_dim=0)).why_not
