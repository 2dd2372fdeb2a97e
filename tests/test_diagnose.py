"""The routine on plain numbers: what a spread alone can say, and what it cannot."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rootdk
from rootdk._lib.errors import ArgumentError
from rootdk.diagnose import CLOSE, NumberDiagnosis, diagnose

LAWS = {
    None: lambda d, h, n: 1 / math.sqrt(d),
    "RDK101": lambda d, h, n: 1.0,
    "RDK102": lambda d, h, n: 1 / d,
    "RDK103": lambda d, h, n: 1 / math.sqrt(d * h),
    "RDK104": lambda d, h, n: 1 / d,
    "RDK105": lambda d, h, n: 1 / math.sqrt(n),
    "RDK106": lambda d, h, n: math.sqrt(d),
    "RDK107": lambda d, h, n: 1 / math.sqrt(h),
}


def codes(diagnosis: NumberDiagnosis) -> list[str | None]:
    return [one.code for one in diagnosis.fitting]


def test_it_is_public() -> None:
    assert rootdk.diagnose(spread=1.0, head_dim=64) == diagnose(spread=1.0, head_dim=64)


@pytest.mark.parametrize(
    ("spread", "code", "name"),
    [
        (1.0, None, "as-it-should-be"),
        (0.97, None, "as-it-should-be"),
        (8.0, "RDK101", "missing-scale"),
        (1 / 8, "RDK104", "unrooted-scale"),
        (64.0, "RDK106", "inverted-scale"),
        (1 / math.sqrt(12), "RDK103", "model-width-scale"),
        (math.sqrt(64 / 12), "RDK107", "head-count-scale"),
        (math.sqrt(64 / 2048), "RDK105", "sequence-length-scale"),
        (30.0, "RDK201", "oversized-entries"),
        (0.02, "RDK202", "undersized-entries"),
    ],
)
def test_each_spread_has_its_explanation(spread: float, code: str | None, name: str) -> None:
    best = diagnose(spread=spread, head_dim=64, num_heads=12, keys=2048).best
    assert (best.code, best.name) == (code, name)
    assert best.fits


def test_twice_and_unrooted_are_the_same_number() -> None:
    diagnosis = diagnose(spread=0.125, head_dim=64)
    assert codes(diagnosis) == ["RDK104", "RDK102", "RDK202"]
    assert "or two of 1/√head_dim (RDK102)?" in diagnosis.best.measure_next


def test_entries_of_two_on_both_sides_make_four() -> None:
    """With everything right, entries of size 2 on both sides give a spread of 4."""
    unknown = diagnose(spread=4.0, head_dim=64)
    assert codes(unknown) == ["RDK201"]
    assert "2 on both sides gives 4" in unknown.best.message
    assert "measure query_std and key_std" in unknown.best.measure_next
    known = diagnose(spread=4.0, head_dim=64, query_std=2.0, key_std=2.0)
    assert codes(known) == ["RDK201"]
    assert "query_std 2 times key_std 2 is 4" in known.best.message
    assert known.implied_scale == 0.125


def test_entries_tell_a_missing_scale_from_large_entries() -> None:
    large = diagnose(spread=8.0, head_dim=64, query_std=2.0, key_std=4.0)
    assert codes(large) == ["RDK201"]
    missing = diagnose(spread=8.0, head_dim=64, query_std=1.0, key_std=1.0)
    assert codes(missing) == ["RDK101"]
    unknown = diagnose(spread=8.0, head_dim=64)
    assert codes(unknown) == ["RDK101", "RDK201"], "both are open, the law first"


def test_small_entries_excuse_a_small_spread() -> None:
    initial = diagnose(spread=0.01, head_dim=64, query_std=0.1, key_std=0.1)
    assert codes(initial) == ["RDK202"]
    hidden = diagnose(spread=0.08, head_dim=64, query_std=0.1, key_std=0.1)
    assert codes(hidden) == ["RDK101"], "a missing scale hides behind small entries"


def test_what_no_law_gives_is_said_to_be_unexplained() -> None:
    diagnosis = diagnose(spread=3.3, head_dim=64, query_std=1.0, key_std=1.0)
    assert codes(diagnosis) == ["RDK108"]
    assert "0.4125" in diagnosis.best.message
    assert "RDK203" in diagnosis.best.measure_next


def test_where_sizes_agree_all_are_listed() -> None:
    diagnosis = diagnose(spread=1.0, head_dim=64, num_heads=64, keys=64)
    assert codes(diagnosis) == [None, "RDK107", "RDK105"]
    wrong = diagnose(spread=0.125, head_dim=64, num_heads=64)
    assert codes(wrong) == ["RDK104", "RDK102", "RDK103", "RDK202"]


def test_what_was_not_given_is_no_explanation() -> None:
    everything = {one.code for one in diagnose(spread=1.0, head_dim=64).explanations}
    assert everything.isdisjoint({"RDK103", "RDK105", "RDK107"})
    single = diagnose(spread=1.0, head_dim=64, num_heads=1, keys=1)
    assert {one.code for one in single.explanations} == everything


@given(
    law=st.sampled_from(sorted(LAWS, key=str)),
    head_dim=st.sampled_from([16, 32, 64, 80, 128, 256]),
    num_heads=st.integers(2, 64),
    keys=st.integers(2, 4096),
    query_std=st.floats(0.01, 10),
    key_std=st.floats(0.01, 10),
)
def test_the_law_that_made_the_spread_is_among_the_best(
    law: str | None, head_dim: int, num_heads: int, keys: int, query_std: float, key_std: float
) -> None:
    scale = LAWS[law](head_dim, num_heads, keys)
    size = query_std * key_std
    diagnosis = diagnose(
        spread=scale * math.sqrt(head_dim) * size,
        head_dim=head_dim,
        num_heads=num_heads,
        keys=keys,
        query_std=query_std,
        key_std=key_std,
    )
    assert diagnosis.implied_scale == pytest.approx(scale)
    expected = {law} if law else {None, "RDK201", "RDK202"}
    assert expected & set(codes(diagnosis))
    first = diagnosis.best.distance
    assert first == pytest.approx(0.0, abs=1e-9)
    distances = [one.distance for one in diagnosis.explanations]
    assert distances == sorted(distances)


@given(spread=st.floats(1e-6, 1e6), head_dim=st.integers(1, 4096))
def test_something_always_explains_it(spread: float, head_dim: int) -> None:
    diagnosis = diagnose(spread=spread, head_dim=head_dim)
    assert diagnosis.fitting
    assert diagnosis.explanations[: len(diagnosis.fitting)] == diagnosis.fitting
    for one in diagnosis.explanations:
        assert one.fits == (abs(math.log(spread / one.spread)) <= CLOSE)
        assert one.message.endswith(".")
        assert one.measure_next
    text = str(diagnosis)
    assert f"head_dim {head_dim}" in text
    assert all(one.name in text for one in diagnosis.explanations)


def test_the_text_is_for_people() -> None:
    text = str(diagnose(spread=8.0, head_dim=64))
    assert text.splitlines() == [
        (
            "spread 8 at head_dim 64: implied scale 1 if the entries have standard deviation 1; "
            "1/√head_dim is 0.125 and would give 1."
        ),
        (
            "1. RDK101 missing-scale: nothing divides the scores; "
            "a scale of 1 gives 8 with entries of standard deviation 1."
        ),
        (
            "   Next: look for the factors between the projections and the softmax, "
            "or run rootdk check: is there any?"
        ),
        (
            "2. RDK201 oversized-entries: the scale is right and the entries are not of standard "
            "deviation 1; 2.828 on both sides gives 8."
        ),
        "   Next: measure query_std and key_std, and give both: they decide.",
        "Too far off to explain it:",
        "   as-it-should-be             gives 1",
        "   RDK106 inverted-scale       gives 64",
        "   RDK104 unrooted-scale       gives 0.125",
        "   RDK102 scale-applied-twice  gives 0.125",
    ]


def test_numpy_numbers_are_numbers() -> None:
    mine = diagnose(spread=np.float32(8.0), head_dim=np.int64(64))  # type: ignore[arg-type]
    assert mine == diagnose(spread=8.0, head_dim=64)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"spread": 0.0}, "spread is 0.0; expected a finite number above 0"),
        ({"spread": -1.0}, "spread is -1.0"),
        ({"spread": math.nan}, "spread is nan"),
        ({"spread": math.inf}, "spread is inf"),
        ({"spread": "large"}, "spread is 'large'"),
        ({"spread": True}, "spread is True"),
        ({"head_dim": 0}, "head_dim is 0; expected a whole number from 1 up"),
        ({"head_dim": 64.0}, "head_dim is 64.0"),
        ({"head_dim": True}, "head_dim is True"),
        ({"num_heads": -2}, "num_heads is -2"),
        ({"keys": 0}, "keys is 0"),
        ({"query_std": 0.0, "key_std": 1.0}, "query_std is 0.0"),
        ({"query_std": 1.0, "key_std": math.nan}, "key_std is nan"),
        ({"query_std": 1.0}, "query_std was given without key_std; expected both, or neither"),
        ({"key_std": 1.0}, "key_std was given without query_std"),
    ],
)
def test_what_means_nothing_is_refused(changed: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        diagnose(**{"spread": 1.0, "head_dim": 64, **changed})  # type: ignore[arg-type]


def test_it_agrees_with_what_is_measured(rng: np.random.Generator) -> None:
    query, key = rng.normal(size=(1, 300, 64)), rng.normal(size=(1, 300, 64))
    for scale, code in ((1.0, "RDK101"), (1 / 64, "RDK104"), (None, None)):
        summary = rootdk.measure(query, key, scale=scale)
        diagnosis = diagnose(
            spread=summary["spread"][0],
            head_dim=64,
            query_std=summary["query_std"][0],
            key_std=summary["key_std"][0],
        )
        assert diagnosis.best.code == code
        assert diagnosis.implied_scale == pytest.approx(summary["implied_scale"][0])
