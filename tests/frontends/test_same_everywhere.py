"""The same small transformer gives the same sites, numbers and codes in every framework."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from frontends.same import in_jax, in_keras, in_onnx, in_torch
from frontends.same.transformer import FAULTS, SOUND, Case, Fault, make_case

import rootdk
from rootdk.frontends._sites.recording import Recording
from rootdk.records import AttentionSite, Diagnosis

Build = Callable[[Case, str], tuple[Any, tuple[Any, ...]]]

WRITTEN: dict[str, tuple[Build, str]] = {
    **{f"torch {name}": (in_torch.build, name) for name in in_torch.SPELLINGS},
    **{f"jax {name}": (in_jax.build, name) for name in in_jax.SPELLINGS},
    **{f"onnx {name}": (in_onnx.build, name) for name in in_onnx.SPELLINGS},
    "jax einsum jit": (in_jax.build, "einsum-jit"),
    "jax einsum scan": (in_jax.build, "einsum-scan"),
    "keras layer": (in_keras.build, "layer"),
    "keras library": (in_keras.build, "library"),
}
FUSED = frozenset({"torch fused", "jax library", "onnx operator"})
REFERENCE = "torch plain"

# Every operation on the way rounds to float32; a hundred of them in a row is a wide estimate.
RELATIVE = 100 * float(np.finfo(np.float32).eps)
# Not compared: how often something was exceeded, and which rows are shown, jumps at the edge.
JUMPING = ("rows_over_50", "rows_over_90", "rows_over_99", "score_histogram", "sample_rows")


def can_have(written: str, fault: Fault) -> bool:
    if written == "keras library":
        return fault in {SOUND} or fault.gain != 1.0
    if written == "jax vmap" and fault.axis == 1:
        return False
    return fault.fused if written in FUSED else True


# One spelling of each framework has every fault by default, and every spelling these.
ALWAYS_WRITTEN = frozenset({"torch plain", "jax einsum", "keras layer", "onnx plain"})
ALWAYS_FAULTS = frozenset({"sound", "missing", "axis-queries"})

CASES = [
    pytest.param(
        written,
        fault,
        id=f"{written}-{fault.name}".replace(" ", "_"),
        marks=[]
        if written in ALWAYS_WRITTEN or fault.name in ALWAYS_FAULTS
        else [pytest.mark.slow],
    )
    for written in WRITTEN
    for fault in FAULTS
    if can_have(written, fault)
]


@pytest.fixture(autouse=True)
def faults_of_the_tracer_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recording, "strict", True)


@functools.cache
def check(written: str, fault: Fault) -> Diagnosis:
    build, spelling = WRITTEN[written]
    # The numbers follow from the fault alone, so that all frameworks are given the same.
    case = make_case(fault, np.random.default_rng(FAULTS.index(fault)))
    model, args = build(case, spelling)
    return rootdk.check(model, *args)


def facts(site: AttentionSite) -> dict[str, object]:
    """What a site is, apart from its name, its place and how it is spelled."""
    return {
        "shape": (site.batch, site.num_heads, site.num_kv_heads, site.queries, site.keys),
        "widths": (site.head_dim, site.value_dim, site.hidden),
        "scale": pytest.approx(site.effective_scale, rel=1e-6),
        "axis": site.normalisation.axis,
        "causal": site.causal,
        "addends": site.addends,
        "terms": site.score_terms,
        "projected": (site.query_path.terminal, site.key_path.terminal),
        "resolved": site.unresolved,
    }


def codes(diagnosis: Diagnosis) -> set[tuple[str, str]]:
    return {(finding.code, str(finding.severity)) for finding in diagnosis.findings}


@pytest.mark.parametrize(("written", "fault"), CASES)
def test_sites_numbers_and_codes_are_the_same(written: str, fault: Fault) -> None:
    diagnosis, reference = check(written, fault), check(REFERENCE, fault)
    assert [s.unresolved for s in diagnosis.sites] == [None, None]
    assert [facts(site) for site in diagnosis.sites] == [facts(s) for s in reference.sites]
    assert diagnosis.state == reference.state
    loud = {f.code for f in diagnosis.findings if f.severity.reaches("warning")}
    assert loud == ({fault.code} if fault.code else set())
    assert codes(diagnosis) == codes(reference)


@pytest.mark.parametrize(("written", "fault"), CASES)
def test_statistics_are_the_same_within_rounding(written: str, fault: Fault) -> None:
    found, expected = (list(check(name, fault).summaries.values()) for name in (written, REFERENCE))
    assert len(found) == len(expected) == 2
    for one, two in zip(found, expected, strict=True):
        assert set(one.quantities) == set(two.quantities)
        for name in set(two.quantities) - set(JUMPING):
            scale = max(float(np.nanmax(np.abs(two[name]))), 1.0)
            np.testing.assert_allclose(
                one[name], two[name], rtol=RELATIVE, atol=RELATIVE * scale, err_msg=name
            )


@pytest.mark.parametrize(("written", "fault"), CASES)
def test_the_line_is_one_of_the_user(written: str, fault: Fault) -> None:
    build, _ = WRITTEN[written]
    own = "keras/" if written == "keras library" else build.__code__.co_filename
    found = [f for f in check(written, fault).findings if f.severity.reaches("warning")]
    for finding in found:
        assert finding.source is not None
        if build is in_onnx.build:
            # A graph written by hand has names of nodes in place of lines.
            assert finding.source.location.startswith("/blocks.")
            continue
        assert own in finding.source.frames[0].file
