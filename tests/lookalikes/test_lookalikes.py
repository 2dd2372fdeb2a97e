"""Right designs that look wrong: no error, no warning, and the scale that the code computes."""

import functools
import zlib

import pytest
from lookalikes.design import LookAlike
from lookalikes.registry import DESIGNS

import rootdk
from rootdk.records import Diagnosis

NAMES = [look_alike.name for look_alike in DESIGNS]
# Constants stored in float32 are right to its eps; a few are multiplied.
RELATIVE = 1e-5
# Families of notes that say something about entries and health, which are true of many a design.
FREE = ("RDK2", "RDK6")


@functools.cache
def diagnose(name: str) -> Diagnosis:
    """One check for all that is asserted of a design."""
    model, inputs = DESIGNS[NAMES.index(name)].build(zlib.crc32(name.encode()))
    return rootdk.check(model, *inputs)


def codes(diagnosis: Diagnosis, *severities: str) -> set[str]:
    return {finding.code for finding in diagnosis.findings if finding.severity in severities}


def describe(diagnosis: Diagnosis) -> str:
    findings = [f"{f.source}: {f.code} ({f.severity}) {f.message}" for f in diagnosis.findings]
    sites = [f"{s.name}: {s.effective_scale} {s.unresolved or ''}" for s in diagnosis.sites]
    return "\n".join(sites + findings)


@pytest.mark.parametrize("look_alike", DESIGNS, ids=NAMES)
def test_a_right_design_is_left_alone(look_alike: LookAlike) -> None:
    diagnosis = diagnose(look_alike.name)
    assert codes(diagnosis, "error", "warning") == set(look_alike.known), describe(diagnosis)
    notes = {code for code in codes(diagnosis, "note") if not code.startswith(FREE)}
    assert look_alike.notes <= notes <= look_alike.notes | look_alike.may_note, describe(diagnosis)


@pytest.mark.parametrize("look_alike", DESIGNS, ids=NAMES)
def test_its_scale_is_what_the_code_computes(look_alike: LookAlike) -> None:
    diagnosis = diagnose(look_alike.name)
    assert len(diagnosis.sites) in look_alike.sites, describe(diagnosis)
    for index, site in enumerate(diagnosis.sites):
        if site.unresolved is not None:
            assert look_alike.hard, describe(diagnosis)
            continue
        allowed = [pytest.approx(c, rel=RELATIVE) for c in look_alike.scales_at(index)]
        assert site.effective_scale in allowed, describe(diagnosis)
        assert isinstance(site.effective_scale, float)
        if look_alike.learned:
            assert any(factor.kind != "constant" for factor in site.factors), site.factors


def test_the_excuse_of_a_note_is_given() -> None:
    """Where a deviation is only a note, the finding says why."""
    excused = [look_alike for look_alike in DESIGNS if look_alike.notes - {"RDK301", "RDK405"}]
    assert len(excused) >= 7
    for look_alike in excused:
        findings = diagnose(look_alike.name).findings
        assert all(f.excuse for f in findings if f.code in look_alike.notes), look_alike.name
