"""Each fault alone in a small transformer gets exactly its code, at the line that is guilty."""

import pytest
from faults.registry import FAULTS, SOUND, Fault
from faults.transformer import BLOCKS, INITS, SIZES, Size, Transformer, build
from torch import Tensor

import rootdk
from rootdk.records import Diagnosis, Finding

USUAL = ("unit", 64)
FIRST_SPELLINGS = tuple({fault.module: fault for fault in reversed(FAULTS)}.values())
# A float32 constant, stored or made in the forward pass, is right to its eps.
RELATIVE = 1e-6


def cases(faults: tuple[Fault, ...], always: tuple[Fault, ...]) -> list[object]:
    """Every fault with every init and width; slow, unless usual or of an ``always`` fault."""
    return [
        pytest.param(
            fault,
            init,
            width,
            id=f"{fault.identity}-{init}-{width}",
            marks=[] if (init, width) == USUAL or fault in always else [pytest.mark.slow],
        )
        for fault in faults
        for init in INITS
        for width in SIZES
    ]


def loud(diagnosis: Diagnosis) -> list[Finding]:
    """The findings that say that something is wrong."""
    return [finding for finding in diagnosis.findings if finding.severity.reaches("warning")]


def describe(findings: list[Finding]) -> str:
    return "\n".join(f"{f.site} {f.source}: {f.code} ({f.severity}) {f.message}" for f in findings)


def lines(findings: list[Finding]) -> set[tuple[str, int]]:
    frames = [finding.source.frames[0] for finding in findings if finding.source is not None]
    return {(frame.file, frame.line) for frame in frames}


def check(model: Transformer, tokens: Tensor, size: Size) -> Diagnosis:
    """The diagnosis; each block's attention is one site, understood, of the right shape."""
    diagnosis = rootdk.check(model, tokens)
    assert [site.unresolved for site in diagnosis.sites] == [None] * BLOCKS
    for site in diagnosis.sites:
        shape = (site.batch, site.num_heads, site.queries, site.keys, site.head_dim)
        assert shape == (size.batch, size.heads, size.length, size.length, size.head_dim)
    return diagnosis


@pytest.mark.parametrize(("fault", "init", "width"), cases(FAULTS, FIRST_SPELLINGS))
def test_a_fault_gets_its_code_at_its_line(fault: Fault, init: str, width: int, seed: int) -> None:
    size = SIZES[width]
    model, tokens = build(fault.attention, init=init, size=size, seed=seed)
    diagnosis = check(model, tokens, size)
    found = loud(diagnosis)
    assert {finding.code for finding in found} == {fault.code}, describe(found)
    assert {finding.site for finding in found} == {site.name for site in diagnosis.sites}
    for site in diagnosis.sites:
        assert site.effective_scale == pytest.approx(fault.scale(size), rel=RELATIVE)
    if fault.lines:
        assert all(finding.source is not None for finding in found), describe(found)
        assert lines(found) <= fault.lines, describe(found)


@pytest.mark.parametrize(("fault", "init", "width"), cases(SOUND, SOUND[:1]))
def test_without_a_fault_there_is_no_code(fault: Fault, init: str, width: int, seed: int) -> None:
    size = SIZES[width]
    model, tokens = build(fault.attention, init=init, size=size, seed=seed)
    diagnosis = check(model, tokens, size)
    assert loud(diagnosis) == [], describe(loud(diagnosis))
    assert not [finding for finding in diagnosis.findings if finding.code.startswith("RDK1")]
    for site in diagnosis.sites:
        assert site.effective_scale == pytest.approx(size.standard, rel=RELATIVE)


@pytest.mark.parametrize(
    "fault", FIRST_SPELLINGS, ids=[fault.identity for fault in FIRST_SPELLINGS]
)
def test_a_trained_model_gets_the_same_code(fault: Fault, seed: int) -> None:
    """Only the size of entries is no fault of a model that chose it in training."""
    size = SIZES[64]
    model, tokens = build(fault.attention, init="unit", size=size, seed=seed)
    for block in model.blocks:
        block.attention_norm.weight.data.mul_(1.001)
    diagnosis = check(model, tokens, size)
    assert diagnosis.state == "trained"
    found = loud(diagnosis)
    noted = {finding.code for finding in diagnosis.findings if finding.severity == "note"}
    if fault.code == "RDK201":
        assert not found, describe(found)
        assert fault.code in noted
    else:
        assert {finding.code for finding in found} == {fault.code}, describe(found)
        assert lines(found) <= fault.lines, describe(found)


def test_the_parent_of_each_fault_is_among_the_sound() -> None:
    assert {fault.sound for fault in FAULTS} <= {sound.attention for sound in SOUND}
