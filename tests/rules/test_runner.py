"""How rules are run: on what they read, in three values, in order, and by selection."""

import pytest

from rootdk.records import AttentionSite, Observed, Severity
from rootdk.rules import Rule, UnknownRuleError, all_rules, judge
from rootdk.rules._base import reads
from rootdk.rules._examples import constant, healthy_site, numbers, scaled_site, silent


class Odd(Rule):
    """A rule for tests.

    Remedy
    ------
    Do the
    other thing.

    And a second paragraph.
    """

    code = "RDK199"
    name = "odd-thing"
    since = "0.1"
    severities = (Severity.WARNING,)

    def examples(self):
        yield silent("nothing")


class OfSites(Odd):
    def judge_site(self, site, state, other_site=None):
        yield self.finding(site, Severity.WARNING, f"{state} {other_site is not None}")


class OfSummaries(Odd):
    def judge_numbers(self, site, summary):
        yield self.finding(site, Severity.WARNING, f"spread {summary['spread'][0]}")


class OfBehaviour(Odd):
    def judge_behaviour(self, behaviour):
        yield from ()


class OfBoth(OfSites):
    def judge_behaviour(self, behaviour):
        yield from ()


class Unsure(Odd):
    def judge_site(self, site):
        yield self.finding(site, Severity.WARNING, "one")
        self.skip("it cannot tell")


class Broken(Odd):
    def judge_site(self, site):
        raise ZeroDivisionError("division by zero")


class Misread(Odd):
    def judge_site(self, site, weather):
        yield from ()


class Grave(Odd):
    def judge_site(self, site):
        yield self.finding(site, Severity.ERROR, "too grave")


def run(rule, sites=(), summaries=None, state="init", **options):
    sites = sites or (healthy_site(name="a"),)
    summaries = {"a": numbers()} if summaries is None else summaries
    return judge(sites, summaries, state, rules=(rule,), **options)


# ------------------------------------------------------------------ evidence


def test_a_method_says_what_it_reads_by_its_parameters():
    assert reads(OfSites().judge_site) == (("site", "state"), ("other_site",))
    assert reads(OfSummaries().judge_numbers) == (("site", "summary"), ())


def test_a_parameter_that_is_no_evidence_is_refused():
    with pytest.raises(TypeError, match="judge_site reads weather; expected only site"):
        run(Misread())


@pytest.mark.parametrize(
    ("state", "judged"), [("init", "init"), ("trained", "trained"), ("unknown", "trained")]
)
def test_unknown_is_judged_as_trained(state, judged):
    (finding,), skipped = run(OfSites(), state=state)
    assert finding.message == f"{judged} False"
    assert skipped == ()


def test_optional_evidence_is_given_where_there_is_some():
    (finding,), _ = run(OfSites(), other_sites={"a": healthy_site()})
    assert finding.message == "init True"


def test_numbers_are_found_by_the_name_of_the_site():
    (finding,), _ = run(OfSummaries())
    assert finding.message == "spread 1.0"
    findings, (skip,) = run(OfSummaries(), summaries={"b": numbers()})
    assert findings == ()
    assert (skip.code, skip.site, skip.why) == ("RDK199", "a", "the site has no statistics")


def test_a_rule_of_behaviour_is_skipped_once_and_not_at_each_site():
    sites = [healthy_site(name="a"), healthy_site(name="b")]
    findings, (skip,) = run(OfBehaviour(), sites)
    assert findings == ()
    assert skip.site is None
    assert "rootdk identify" in skip.why


def test_a_rule_that_reads_several_kinds_is_judged_by_what_there_is():
    findings, skipped = run(OfBoth())
    assert len(findings) == 1
    assert skipped == ()


# ------------------------------------------------------------------ three values


def test_what_cannot_be_told_is_skipped_with_the_reason():
    findings, (skip,) = run(Unsure())
    assert findings == ()
    assert (skip.why, skip.site) == ("it cannot tell", "a")


def test_an_unresolved_site_is_skipped_by_every_rule_that_needs_more():
    broken = healthy_site(unresolved="an unknown operation", dropout=0.2)
    findings, skipped = judge([broken], {}, "trained")
    assert [finding.code for finding in findings] == ["RDK607"]
    why = {skip.code: skip.why for skip in skipped}
    assert why["RDK101"] == "the site is unresolved: an unknown operation"
    assert set(why) == {rule.code for rule in all_rules()} - {"RDK607"}
    assert why["RDK606"] == "the scores were not looked at"


def test_nan_is_found_at_a_site_that_could_not_be_verified_for_it():
    observed = Observed(nonfinite_scores=5, nonfinite_inputs=2)
    site = healthy_site(unresolved="recomputed weights are NaN", observed=observed)
    findings, _ = judge([site], {}, "trained")
    assert [finding.code for finding in findings] == ["RDK606"]


def test_a_rule_that_breaks_says_which_and_where():
    with pytest.raises(ZeroDivisionError) as caught:
        run(Broken())
    assert caught.value.__notes__ == ["while RDK199 judged a"]


# ------------------------------------------------------------------ findings


def test_a_finding_is_filled_from_its_rule_and_its_site():
    (finding,), _ = run(OfSites())
    assert (finding.code, finding.name, finding.site) == ("RDK199", "odd-thing", "a")
    assert finding.remedy == "Do the other thing."
    assert finding.source == healthy_site().source


def test_a_severity_that_was_not_declared_is_refused():
    with pytest.raises(ValueError, match="found with severity error; expected one of warning"):
        run(Grave())


def test_the_family_and_the_order_follow_from_the_code():
    assert (Odd.family.fget(Odd()), Odd.order.fget(Odd())) == ("scale", 1990)
    assert repr(Odd()) == "<RDK199 odd-thing>"


# ------------------------------------------------------------------ order and selection


def test_errors_come_first_then_the_more_specific_then_the_order_of_the_sites():
    sites = [
        healthy_site(name="a", dropout=0.1),
        scaled_site(0.07, name="b"),
        scaled_site(1 / 64, name="c"),
        scaled_site(constant(0.125, "query"), constant(0.125), name="d"),
        scaled_site(6**-0.5, name="e"),
        scaled_site(name="f"),
        scaled_site(24**-0.5, name="g"),
        scaled_site(384**-0.5, name="h"),
        scaled_site(8.0, name="i"),
        scaled_site(1 / 64, name="j"),
    ]
    findings, _ = judge(sites, {site.name: numbers() for site in sites}, "init")
    codes = "607 101 104 104 102 103 107 105 106 108"
    assert [finding.code for finding in findings] == [f"RDK{code}" for code in codes.split()]
    assert [finding.site for finding in findings if finding.code == "RDK104"] == ["c", "j"]


def codes_of(**options):
    site = scaled_site(dropout=0.1)
    findings, skipped = judge([site], {}, "trained", **options)
    return {finding.code for finding in findings}, {skip.code for skip in skipped}


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({}, {"RDK101", "RDK607"}),
        ({"select": ["RDK101"]}, {"RDK101"}),
        ({"select": ["rdk1"]}, {"RDK101"}),
        ({"select": ["missing-scale", "health"]}, {"RDK101", "RDK607"}),
        ({"ignore": ["scale"]}, {"RDK607"}),
        ({"select": ["RDK6"], "ignore": ["RDK607"]}, set()),
        ({"select": ["RDK110"]}, set()),
        ({"ignore": ["RDK"]}, set()),
    ],
)
def test_rules_are_selected_and_ignored(options, found):
    assert codes_of(**options)[0] == found


def test_what_was_not_asked_for_is_not_reported_as_skipped():
    _, skipped = codes_of(select=["RDK2"])
    assert skipped == {"RDK202", "RDK203", "RDK204", "RDK201"}


@pytest.mark.parametrize("option", ["select", "ignore"])
def test_a_selector_of_nothing_is_refused(option):
    with pytest.raises(UnknownRuleError, match="there is no rule 'RDK999'"):
        codes_of(**{option: ["RDK999"]})


def test_no_sites_give_nothing_but_what_no_site_can_show():
    findings, skipped = judge([], {}, "init")
    assert findings == ()
    assert {skip.code for skip in skipped} >= {"RDK110", "RDK407", "RDK708"}
    assert {skip.site for skip in skipped} == {None}
    assert all("rootdk identify" in skip.why for skip in skipped)


def test_sites_are_judged_as_records_only():
    assert not any(
        "torch" in str(field.type) for field in AttentionSite.__dataclass_fields__.values()
    )
