"""Where sizes agree, so do the laws of the scale: another length tells them apart."""

import pytest
from faults import models_105_sequence_length as by_length
from faults import models_107_head_count as by_heads
from faults import models_sound as sound
from faults.transformer import Attention, Size, build
from torch import Tensor

import rootdk
from rootdk.records import Diagnosis

AS_MANY_HEADS_AS_TOKENS = Size(width=64, heads=4, batch=3, length=4)
AS_WIDE_AS_LONG = Size(width=64, heads=4, batch=3, length=16)
OTHER_LENGTH = 3


def check_twice(attention: type[Attention], size: Size, seed: int) -> Diagnosis:
    """The diagnosis with shorter tokens at hand, for where one length leaves it open."""
    model, tokens = build(attention, init="unit", size=size, seed=seed)

    def shorter() -> tuple[tuple[Tensor, ...], dict[str, object]]:
        return (tokens[:, :OTHER_LENGTH],), {}

    return rootdk.check(model, tokens, rootdk={"second_inputs": shorter})


def loud(diagnosis: Diagnosis) -> set[str]:
    return {finding.code for finding in diagnosis.findings if finding.severity.reaches("warning")}


@pytest.mark.parametrize(
    ("attention", "size", "codes"),
    [
        pytest.param(by_length.Matmul, AS_MANY_HEADS_AS_TOKENS, {"RDK105"}, id="length-not-heads"),
        pytest.param(by_heads.Matmul, AS_MANY_HEADS_AS_TOKENS, {"RDK107"}, id="heads-not-length"),
        pytest.param(by_length.Matmul, AS_WIDE_AS_LONG, {"RDK105"}, id="length-not-head-dim"),
        pytest.param(sound.Matmul, AS_WIDE_AS_LONG, set(), id="head-dim-not-length"),
    ],
)
def test_another_length_tells_laws_apart(
    attention: type[Attention], size: Size, codes: set[str], seed: int
) -> None:
    assert loud(check_twice(attention, size, seed)) == codes


@pytest.mark.parametrize("attention", [by_length.Matmul, by_heads.Matmul], ids=["length", "heads"])
def test_at_one_length_every_reading_is_given(attention: type[Attention], seed: int) -> None:
    model, tokens = build(attention, init="unit", size=AS_MANY_HEADS_AS_TOKENS, seed=seed)
    diagnosis = rootdk.check(model, tokens)
    assert loud(diagnosis) == {"RDK107"}
    for finding in diagnosis.findings:
        if finding.code == "RDK107":
            assert "num_heads" in finding.message
            assert "keys" in finding.message
