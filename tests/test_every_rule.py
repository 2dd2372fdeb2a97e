"""What holds for every rule, found by walking the folder: page, name, examples."""

import re
from pathlib import Path

import pytest

import rootdk.rules
from rootdk.records import Severity
from rootdk.rules import (
    FAMILIES,
    RESERVED,
    SECTIONS,
    Example,
    Rule,
    all_rules,
    judge,
    judge_behaviour,
)
from rootdk.rules._base import reads
from rootdk.rules._behaviour_examples import behaving
from rootdk.rules._examples import fires, healthy_site, numbers, silent, skips
from rootdk.rules._runner import Verdicts, judge_rule

RULES = all_rules()
EXAMPLES = [
    pytest.param(rule, example, id=f"{rule.code}-{example.title.replace(' ', '-')}")
    for rule in RULES
    for example in rule.examples()
]

every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
every_example = pytest.mark.parametrize(("rule", "example"), EXAMPLES)


def assert_holds(rule: Rule, example: Example) -> None:
    """Assert that the rule says of an example what the example says that it must."""
    said = Verdicts()
    judge_rule(rule, example.evidence, into=said)
    outcome = "fires" if said.findings else "skipped" if said.skipped else "silent"
    assert outcome == example.outcome, (said.findings, said.skipped)
    if example.outcome == "fires":
        assert [finding.severity for finding in said.findings] == [example.severity]
        finding = said.findings[0]
        words = f"{finding.message}\n{finding.excuse}"
        assert (finding.code, finding.name) == (rule.code, rule.name)
        if example.line is not None:
            assert finding.source is not None
            assert finding.source.frames[0].line == example.line
    else:
        words = "\n".join(skipped.why for skipped in said.skipped)
    assert all(part in words for part in example.says), words


# ------------------------------------------------------------------ the folder


def test_the_folder_holds_the_rules_of_this_version() -> None:
    codes = "101 102 103 104 105 106 107 108 109 111 201 202 203 204 301 302 303 304 305 307"
    codes += " 401 402 405 406 601 602 605 606 607"
    codes += " 110 306 403 404 407 408 409 501 502 708"
    assert {f"RDK{code}" for code in codes.split()} <= {rule.code for rule in RULES}


@every_rule
def test_the_code_belongs_to_the_family_whose_folder_holds_the_rule(rule: Rule) -> None:
    assert re.fullmatch(r"RDK[1-9]\d\d", rule.code)
    folder = type(rule).__module__.split(".")[-2]
    assert rule.family == folder == FAMILIES[int(rule.code[3]) - 1]


@every_rule
def test_the_file_and_the_class_are_called_as_the_rule_is(rule: Rule) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.name)
    assert type(rule).__module__.rpartition(".")[2] == rule.name.replace("-", "_")
    assert type(rule).__name__.lower() == rule.name.replace("-", "")


def test_codes_and_names_are_taken_once() -> None:
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)
    assert not set(RESERVED) & {rule.code for rule in RULES}
    assert not set(RESERVED.values()) & set(names)


def test_there_is_one_file_for_each_rule() -> None:
    folder = Path(rootdk.rules.__file__).parent
    files = [path for path in folder.glob("*/*.py") if not path.name.startswith("_")]
    assert len(files) == len(RULES)


@every_rule
def test_the_version_is_a_version(rule: Rule) -> None:
    assert re.fullmatch(r"\d+\.\d+", rule.since)


# ------------------------------------------------------------------ the page


@every_rule
def test_the_page_has_every_section_in_order(rule: Rule) -> None:
    assert tuple(rule.page.sections) == SECTIONS
    for title, text in rule.page.sections.items():
        assert len(text) >= 40, title
    assert re.search(r"\d{4}", rule.page.sections["References"])


@every_rule
def test_the_page_begins_with_one_sentence_that_is_not_its_name(rule: Rule) -> None:
    summary = rule.page.summary
    assert summary.endswith(".")
    assert 20 <= len(summary) <= 110
    assert rule.name.replace("-", " ") != summary.rstrip(".").lower()


@every_rule
def test_the_remedy_says_what_to_do_in_a_line_or_two(rule: Rule) -> None:
    assert 30 <= len(rule.page.remedy) <= 260
    assert rule.page.remedy.endswith((".", ")"))
    assert "\n" not in rule.page.remedy


@every_rule
def test_other_rules_that_a_page_names_exist(rule: Rule) -> None:
    named = set(re.findall(r"RDK\d{3}", rule.page.text))
    assert named <= {other.code for other in RULES} | set(RESERVED)


# ------------------------------------------------------------------ judging


@every_rule
def test_a_judging_method_says_what_it_reads(rule: Rule) -> None:
    assert rule.judging
    for method in rule.judging.values():
        needed, _ = reads(method)
        assert needed


@every_rule
def test_what_a_rule_supersedes_exists_and_is_another(rule: Rule) -> None:
    assert set(rule.supersedes) <= {other.code for other in RULES} - {rule.code}
    assert set(rule.supersedes_when) <= set(Severity)


def test_no_two_rules_are_each_the_other_s_cause() -> None:
    causes = {rule.code: set(rule.supersedes) for rule in RULES}
    while causes:
        ends = {code for code, consequences in causes.items() if not consequences & set(causes)}
        assert ends, f"a circle among {sorted(causes)}"
        causes = {code: effects for code, effects in causes.items() if code not in ends}


# ------------------------------------------------------------------ examples


@every_example
def test_the_example_holds(rule: Rule, example: Example) -> None:
    assert_holds(rule, example)


@every_example
def test_a_fault_has_one_code_in_a_report(rule: Rule, example: Example) -> None:
    evidence = example.evidence
    if "behaviour" in evidence:
        findings, _ = judge_behaviour(evidence["behaviour"])
        assert_only(rule, example, {finding.code for finding in findings})
        return
    site = evidence["site"]
    summaries = {site.name: evidence["summary"]} if "summary" in evidence else {}
    others = {site.name: evidence["other_site"]} if "other_site" in evidence else {}
    findings, _ = judge([site], summaries, evidence["state"], other_sites=others)
    assert_only(rule, example, {finding.code for finding in findings})


def assert_only(rule: Rule, example: Example, codes: set[str]) -> None:
    """Assert that a fault has its rule's code and no other, or that the rule is silent."""
    assert codes == {rule.code} if example.outcome == "fires" else rule.code not in codes


@every_rule
def test_every_severity_is_shown_by_an_example(rule: Rule) -> None:
    shown = {example.severity for example in rule.examples() if example.outcome == "fires"}
    assert shown == set(rule.severities)


@every_rule
def test_some_examples_fire_and_some_stay_silent(rule: Rule) -> None:
    for kind in ("site", "behaviour"):
        if not any(kind in reads(method)[0] for method in rule.judging.values()):
            continue
        outcomes = [one.outcome for one in rule.examples() if kind in one.evidence]
        assert outcomes.count("fires") >= 1, kind
        assert outcomes.count("silent") >= 1, kind


@every_rule
def test_titles_tell_examples_apart(rule: Rule) -> None:
    titles = [example.title for example in rule.examples()]
    assert len(set(titles)) == len(titles)


@every_rule
def test_messages_hold_their_numbers_and_no_none(rule: Rule) -> None:
    said = Verdicts()
    for example in rule.examples():
        judge_rule(rule, example.evidence, into=said)
    assert any(re.search(r"\d", finding.message) for finding in said.findings) or rule.code in {
        "RDK406"
    }
    for finding in said.findings:
        assert "None" not in finding.message
        assert not finding.message.endswith(".")
        assert not finding.message[0].isupper()
        assert finding.evidence


def test_nothing_is_found_at_a_healthy_site() -> None:
    for state in ("init", "trained", "unknown"):
        findings, _ = judge([healthy_site()], {"blocks.0.attention": numbers()}, state)
        assert findings == ()


def test_nothing_is_found_in_a_healthy_function() -> None:
    findings, skipped = judge_behaviour(behaving())
    assert findings == ()
    assert {"RDK201", "RDK102"} <= {skip.code for skip in skipped}


def test_a_finding_of_a_function_says_which_fact_it_rests_on() -> None:
    for rule in RULES:
        said = Verdicts()
        for example in rule.examples():
            if "behaviour" in example.evidence:
                judge_rule(rule, example.evidence, into=said)
        for finding in said.findings:
            assert finding.evidence["fact"]
            assert finding.site == "kernels:attend"


def test_findings_of_a_function_can_be_selected() -> None:
    behaviour = behaving(deterministic=False)
    codes = {finding.code for finding in judge_behaviour(behaviour, ignore=["RDK7"])[0]}
    assert not any(code.startswith("RDK7") for code in codes)


@pytest.mark.parametrize(
    "wrong",
    [
        fires("that it fires", Severity.ERROR),
        skips("that it is skipped"),
        silent("that it is silent", site=healthy_site(dropout=0.1)),
        fires("the severity", Severity.WARNING, site=healthy_site(dropout=0.1)),
        fires("words", Severity.ERROR, site=healthy_site(dropout=0.1), says=("0.2",)),
        fires("the line", Severity.ERROR, site=healthy_site(dropout=0.1), line=99),
    ],
    ids=lambda example: example.title.replace(" ", "-"),
)
def test_the_helper_sees_an_example_that_does_not_hold(wrong: Example) -> None:
    with pytest.raises(AssertionError):
        assert_holds(rootdk.rules.rule("dropout-in-eval"), wrong)
