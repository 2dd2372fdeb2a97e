"""The rules: one fault, one code, one file, one page; found by walking this folder.

A family is a folder, and the hundred of its codes. A rule is one file in it. What a rule reads
it says by the names of its judging methods' parameters, and a verdict has three values: found,
silent, or not judged, with the reason.
"""

from rootdk.rules._base import FAMILIES, Findings, Rule
from rootdk.rules._evidence import NotJudged, State, SummaryLike
from rootdk.rules._examples import Example
from rootdk.rules._page import SECTIONS, Page
from rootdk.rules._registry import UnknownRuleError, all_rules, chosen, rule
from rootdk.rules._reserved import REDIRECTS, RESERVED, RESERVED_FOR
from rootdk.rules._runner import judge, judge_behaviour
from rootdk.rules.scale._law import ScaleVerdict, classify
from rootdk.rules.scale._laws import ambiguous

__all__ = [
    "FAMILIES",
    "REDIRECTS",
    "RESERVED",
    "RESERVED_FOR",
    "SECTIONS",
    "Example",
    "Findings",
    "NotJudged",
    "Page",
    "Rule",
    "ScaleVerdict",
    "State",
    "SummaryLike",
    "UnknownRuleError",
    "all_rules",
    "ambiguous",
    "chosen",
    "classify",
    "judge",
    "judge_behaviour",
    "rule",
]
