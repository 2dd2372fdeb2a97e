"""Nine ways to be silently wrong: a site says that it is unresolved, and why, or it is right.

What is held here is the whole instrument. That the verification alone turns a site unresolved
when the graph's rule for it is taken away is held by the mutation test, over the same cases.
"""

import functools
import zlib

import pytest
from nine.case import Case
from nine.registry import CASES

import rootdk
from rootdk.records import AttentionSite, Diagnosis

# Scalars in these models are computed in float32, in a few steps.
RELATIVE = 1e-5


def without_a_number(site: AttentionSite) -> bool:
    """Whether a factor is listed that one number does not describe."""
    return any(factor.value is None for factor in site.factors)


def not_constant(site: AttentionSite) -> bool:
    """Whether a factor is listed as learned, or as depending on the position."""
    return any(factor.kind != "constant" for factor in site.factors)


def is_honest(site: AttentionSite, case: Case) -> bool:
    """Whether the site claims nothing that is not so."""
    if site.unresolved is not None:
        return bool(site.unresolved.strip())
    if case.unresolved:
        return False
    if case.scale is None:
        return without_a_number(site)
    if site.effective_scale == pytest.approx(case.scale, rel=RELATIVE):
        return True
    return (
        case.constants is not None
        and site.effective_scale == pytest.approx(case.constants, rel=RELATIVE)
        and not_constant(site)
    )


def diagnose(case: Case, seed: int) -> Diagnosis:
    """The diagnosis of one case."""
    model, inputs = case.build(seed)
    return rootdk.check(model, *inputs)


@functools.cache
def diagnosis_of(identity: str) -> Diagnosis:
    """One check for all that is asserted of a case."""
    (case,) = (case for case in CASES if case.identity == identity)
    return diagnose(case, zlib.crc32(identity.encode()))


@pytest.mark.parametrize("case", CASES, ids=[case.identity for case in CASES])
def test_the_site_is_right_or_says_that_it_is_not(case: Case) -> None:
    diagnosis = diagnosis_of(case.identity)
    if not diagnosis.sites:
        assert case.opaque, "the attention was dropped"
        assert diagnosis.unhandled, "the attention was dropped without a word"
    for site in diagnosis.sites:
        said = (site.unresolved, site.effective_scale, case.scale, site.factors)
        assert is_honest(site, case), said


@pytest.mark.parametrize("case", CASES, ids=[case.identity for case in CASES])
def test_nothing_is_said_about_the_scale_of_an_unresolved_site(case: Case) -> None:
    diagnosis = diagnosis_of(case.identity)
    unresolved = {site.name for site in diagnosis.unresolved}
    judged = {f.site for f in diagnosis.findings if f.code.startswith("RDK1")}
    assert not judged & unresolved


WITH_A_TERM = [case for case in CASES if case.term]
WITH_AN_OPERATOR = [case for case in CASES if case.operator]


@pytest.mark.parametrize("case", WITH_A_TERM, ids=[case.identity for case in WITH_A_TERM])
def test_a_product_of_the_unscaled_query_is_seen(case: Case) -> None:
    (site,) = diagnosis_of(case.identity).sites
    assert {addend.kind for addend in site.addends} & case.term, (site.unresolved, site.addends)


@pytest.mark.parametrize("case", WITH_AN_OPERATOR, ids=[case.identity for case in WITH_AN_OPERATOR])
def test_an_operator_of_ones_own_is_listed(case: Case) -> None:
    diagnosis = diagnosis_of(case.identity)
    listed = [unhandled.operation for unhandled in diagnosis.unhandled]
    name = (case.operator or "").replace("::", ".")
    assert any(name in operation.replace("::", ".") for operation in listed), listed
