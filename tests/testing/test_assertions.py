"""assert_attention: what passes, what fails, and what a failure says."""

from collections.abc import Callable

import numpy as np
import pytest

import rootdk.testing
from rootdk._lib.errors import ArgumentError
from rootdk.records import FindingsError
from rootdk.testing import AttentionError, assert_attention

Array = np.ndarray


def weights_of(scores: Array) -> Array:
    terms = np.exp(scores - scores.max(-1, keepdims=True))
    return terms / terms.sum(-1, keepdims=True)


def scaled_by(scale: Callable[[int], float]) -> Callable[[Array, Array, Array], Array]:
    def attend(query: Array, key: Array, value: Array) -> Array:
        scores = query @ key.swapaxes(-1, -2) * scale(query.shape[-1])
        return weights_of(scores) @ value

    return attend


def causal_from_the_top(query: Array, key: Array, value: Array, causal: bool = False) -> Array:
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    return weights_of(scores) @ value


def test_a_sound_function_gives_its_datasheet() -> None:
    datasheet = assert_attention(scaled_by(lambda d: d**-0.5), expect="1/sqrt(head_dim)")
    assert datasheet.formula is not None
    assert datasheet.findings == ()


def test_a_declared_scale_is_right() -> None:
    assert_attention(scaled_by(lambda d: 1.0), expect=1.0)
    assert_attention(scaled_by(lambda d: 1.0 / d), expect="1/head_dim")


def test_a_failure_says_what_is_computed_what_is_wrong_and_how_to_see_it() -> None:
    with pytest.raises(AttentionError) as caught:
        assert_attention(scaled_by(lambda d: 1.0))
    message = str(caught.value)
    assert "has 1 finding at or above 'warning'" in message
    assert "it computes: " in message
    assert "RDK101 missing-scale (warning)" in message
    assert "scores are multiplied by 1, not 1/√head_dim" in message
    assert "to fix: Multiply the scores" in message
    assert "to see RDK101 without rootdk:" in message
    assert "import numpy as np" in message


def test_a_failure_is_an_assertion_and_carries_the_datasheet() -> None:
    with pytest.raises(AssertionError) as caught:
        assert_attention(scaled_by(lambda d: 1.0))
    assert isinstance(caught.value, FindingsError)
    assert caught.value.datasheet.findings[0].code == "RDK101"


def test_a_declared_scale_that_is_not_there_fails() -> None:
    with pytest.raises(AttentionError, match="1/head_dim was expected"):
        assert_attention(scaled_by(lambda d: d**-0.5), expect="1/head_dim")


def test_either_corner_passes_until_one_is_declared() -> None:
    assert_attention(causal_from_the_top)
    assert_attention(causal_from_the_top, causal="top_left")
    with pytest.raises(AttentionError, match="RDK403"):
        assert_attention(causal_from_the_top, causal="bottom_right")


def test_the_bar_and_the_selection_decide_what_fails() -> None:
    unscaled = scaled_by(lambda d: 1.0)
    assert_attention(unscaled, bar="error")
    assert_attention(unscaled, ignore=["RDK101"])
    assert_attention(unscaled, select=["mask"])
    with pytest.raises(AttentionError):
        assert_attention(unscaled, bar="note")


def test_a_bar_that_means_nothing_is_refused() -> None:
    with pytest.raises(ArgumentError, match="bar is 'never'; expected one of error, warning, note"):
        assert_attention(scaled_by(lambda d: 1.0), bar="never")


def test_the_public_names_resolve_and_no_other() -> None:
    assert set(rootdk.testing.__all__) <= set(dir(rootdk.testing))
    assert rootdk.testing.assert_attention is assert_attention
    with pytest.raises(AttributeError, match="has no attribute 'assert_atention'"):
        rootdk.testing.assert_atention  # type: ignore[attr-defined]  # noqa: B018
