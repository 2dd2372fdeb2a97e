"""A fixed choice from the sweep: each site found, resolved and verified; nothing false said of it.

The sweep itself (``bench/zoo.py``) is every architecture of transformers; these are a few of each
kind of attention, with what was computed for them by hand from their source: the ratio of the
scale to 1/√head_dim, in the order in which it first occurs.
"""

import math
import warnings
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("transformers")


@dataclass(frozen=True)
class Expected:
    """Sites of an architecture, the ratios that its source gives, and the codes of warnings."""

    sites: int
    ratios: tuple[float, ...] = (1.0,)
    warns: frozenset[str] = frozenset()
    declares: bool = True


# YaRN's factor 32 in cosines and sines of both sides.
_YARN = (0.1 * math.log(32) + 1) ** 2

FAST = {
    "bert": Expected(2),
    "gpt2": Expected(2),
    "t5": Expected(6, (8.0,)),
    "llama": Expected(2),
    "granite": Expected(2, (math.sqrt(128),)),
    "falcon": Expected(2),
    "bloom": Expected(2),
    "deepseek_v3": Expected(2),
    "gpt_oss": Expected(2, (_YARN,), declares=False),
    "sew-d": Expected(2, (3**-0.5,)),
    "gpt_neo": Expected(2, (math.sqrt(128),), frozenset({"RDK101"})),
    "longt5": Expected(6, (8.0,)),
    "informer": Expected(6),
}
SLOW = {
    "roberta": Expected(2),
    "distilbert": Expected(2),
    "electra": Expected(2),
    "xlnet": Expected(2),
    "mpt": Expected(2),
    "opt": Expected(2),
    "bart": Expected(6),
    "gpt_neox": Expected(2),
    "starcoder2": Expected(2),
    "stablelm": Expected(2),
    "phi3": Expected(2),
    "olmo2": Expected(2),
    "cohere": Expected(2),
    "qwen3": Expected(2),
    "mixtral": Expected(2),
    "gemma2": Expected(2),
    "gemma3_text": Expected(2),
    "jetmoe": Expected(2),
    "mistral4": Expected(2, ((0.1 * math.log(128) + 1) ** 2,)),
    "longcat_flash": Expected(4, (2.0,)),
    "granite_docling_text": Expected(2, (1 / 8,)),
    "dia_encoder": Expected(2, (math.sqrt(128),), frozenset({"RDK101"})),
    "zamba2": Expected(1, (math.sqrt(2),), frozenset({"RDK108"})),
    "switch_transformers": Expected(6, (8.0,)),
    "modernbert": Expected(2),
    "vit": Expected(2),
    "beit": Expected(2),
    "dinov2": Expected(2),
    "clip": Expected(4),
    "wav2vec2": Expected(2),
}


@pytest.mark.parametrize("name", FAST)
def test_an_architecture(name: str) -> None:
    assert_understood(name, FAST[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_a_further_architecture(name: str) -> None:
    assert_understood(name, SLOW[name])


def assert_understood(name: str, expected: Expected) -> None:
    """All sites resolved, verified and of the expected scale; no error; eager and sdpa agree."""
    from zoo.row import make_row

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the libraries' own
        row, _ = make_row(name)
    assert row["status"] == "ran", row.get("why")
    for which in ("eager", "sdpa"):
        if which in row:
            assert_part(row[which], expected)
    agreement = row.get("agreement")
    if agreement is not None:
        assert (agreement["common"], agreement["only_eager"]) == (expected.sites, 0)
        assert agreement["scale"] == []
        assert agreement["statistics"] == []


def assert_part(part: dict[str, Any], expected: Expected) -> None:
    """What one implementation must give."""
    assert part["unresolved"] == []
    assert part["sites"] == part["resolved"] == part["verified"] == expected.sites
    ratios = list(dict.fromkeys(ratio for _, ratio, _, _ in part["scales"]))
    assert ratios == [pytest.approx(ratio, rel=2e-3) for ratio in expected.ratios]
    severe = {(code, severity) for code, severity, *_ in part["findings"] if severity != "note"}
    assert severe == {(code, "warning") for code in expected.warns}, part["findings"]
    assert (part["declared"]["differ"] == []) == expected.declares
    assert part["without_site"] == []


def test_a_wrong_expectation_is_seen() -> None:
    """The assertions can fail."""
    with pytest.raises(AssertionError):
        assert_understood("bert", Expected(2, (2.0,)))
