"""A rule by its code or name; reserved and old codes; the rules of other packages."""

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest
from rules.test_runner import Odd

from rootdk._lib import discovery
from rootdk.rules import RESERVED, RESERVED_FOR, UnknownRuleError, all_rules, rule
from rootdk.rules._registry import ENTRY_POINTS
from rootdk.rules._reserved import reserved_sentence


@pytest.mark.parametrize("text", ["RDK104", "rdk104", "unrooted-scale", "Unrooted-Scale"])
def test_a_rule_is_found_by_code_or_name(text):
    assert rule(text).code == "RDK104"


def test_an_old_code_leads_to_the_new_one():
    assert rule("RDK099", redirects={"RDK099": "RDK101"}).code == "RDK101"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("RDK604", "RDK604 score-growth is reserved; it fires in watch"),
        ("future-leak", "RDK701 future-leak is reserved; it fires in probe"),
        ("missing-scal", "there is no rule 'missing-scal'; did you mean missing-scale"),
        ("xyzzy", "there is no rule 'xyzzy'; `rootdk rules` lists them all"),
    ],
)
def test_what_is_no_rule_is_said_so(text, message):
    with pytest.raises(UnknownRuleError) as caught:
        rule(text)
    assert message in str(caught.value)


def test_reserved_codes_have_a_name_and_a_verb():
    assert list(RESERVED) == sorted(RESERVED)
    assert set(RESERVED) == set(RESERVED_FOR)
    assert {RESERVED["RDK603"], RESERVED["RDK701"]} == {"entropy-collapse", "future-leak"}
    assert reserved_sentence("RDK101") is None


def test_rules_come_by_code_and_are_the_same_each_time():
    codes = [one.code for one in all_rules()]
    assert codes == sorted(codes)
    assert all_rules() is all_rules()


def test_another_package_can_add_a_rule(monkeypatch):
    entry = EntryPoint(name="odd", value="rules.test_runner:Odd", group=ENTRY_POINTS)
    monkeypatch.setattr(EntryPoint, "load", lambda self: Odd)
    monkeypatch.setattr(discovery, "_entries", lambda group: [entry] if group else [])
    all_rules.cache_clear()
    try:
        assert "RDK199" in [one.code for one in all_rules()]
        assert rule("odd-thing").family == "scale"
    finally:
        all_rules.cache_clear()


def test_rules_see_no_framework():
    code = (
        "import sys, rootdk.rules; rootdk.rules.all_rules(); "
        "print(*sorted({'torch', 'jax', 'scipy', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
