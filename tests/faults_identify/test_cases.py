"""identify on every function with a known answer: the right code first, and no false alarm.

NumPy's run by default; those of PyTorch and JAX, which say the same more slowly, but for a few.
"""

import warnings

import pytest
from faults_identify.cases import FAULTS, SOUND, identified
from faults_identify.registry import Case

IN_HALF = frozenset({"RDK304", "RDK307"})
"""Notes that are true of every function that computes in its input's half precision."""

QUICK = frozenset({"library_call", "tiled", "fused_with_one", "einsum_alone"})


def parameters(cases: tuple[Case, ...]) -> list[object]:
    """The cases with their ids and marks."""
    made = []
    for case in cases:
        name = case.function.__name__
        marks = [] if case.framework == "numpy" or name in QUICK else [pytest.mark.slow]
        made.append(pytest.param(case, id=case.identity, marks=marks))
    return made


def findings_of(case: Case) -> tuple[tuple[str, str], ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the function's own overflows
        return tuple((f.code, f.severity.value) for f in identified(case).findings)


@pytest.mark.parametrize("case", parameters(FAULTS))
def test_a_fault_is_named_first(case: Case) -> None:
    codes = [code for code, _ in findings_of(case)]
    assert codes[:1] == [case.code]
    assert set(codes) <= {case.code, *case.also, *IN_HALF}


@pytest.mark.parametrize("case", parameters(SOUND))
def test_nothing_is_said_of_a_sound_function_but_true_notes(case: Case) -> None:
    allowed = case.also | IN_HALF
    assert [f for f in findings_of(case) if f[0] not in allowed or f[1] != "note"] == []


def test_every_code_that_a_function_can_show_has_a_fault() -> None:
    shown = {case.code for case in FAULTS}
    codes = "101 103 104 105 106 107 108 109 110 111 301 302 303 304 305 306 307"
    codes += " 401 402 403 404 405 406 407 408 409 501 502 707 708"
    assert shown == {f"RDK{code}" for code in codes.split()}
    assert len(FAULTS) >= 40
    assert len(SOUND) >= 25
    names = [case.identity for case in FAULTS + SOUND]
    assert len(set(names)) == len(names)
