"""Masks, biases, causal order and windows, read off weights."""

import numpy as np
import pytest
from identify import functions
from identify.functions import scaled, softmax

from rootdk import identify


def facts_of(function, **options):
    return identify(function, **options).behaviour.mask


def test_a_function_with_every_argument() -> None:
    sheet = identify(functions.with_everything)
    facts = sheet.behaviour.mask
    assert facts.boolean == "true_attends"
    assert facts.leak == 0.0
    assert facts.bias_factor == pytest.approx(1.0, abs=1e-4)
    assert facts.bias_leak == 0.0
    assert facts.alignment == "bottom_right"
    assert facts.decode.last_visible == (6,)
    assert facts.empty_rows == {"mask": "zero", "bias": "zero", "causal": "zero"}
    assert set(facts.broadcasts.values()) == {"ok"}
    assert facts.per_sample
    assert facts.per_head
    assert facts.forbidden_values <= facts.forbidden_bound
    assert facts.nonfinite_values == "passes"  # 0 · NaN
    assert all(window.asked_reach == window.seen_reach for window in facts.window)
    assert {fact.effect for fact in sheet.behaviour.arguments.values()} == {"as-asked"}
    assert sheet.findings == ()
    assert all(path.agrees for path in sheet.behaviour.paths)


def filled(fill, replaces=True):
    def function(query, key, value, mask=None):
        scores = scaled(query, key)
        if mask is not None:
            scores = np.where(mask, scores, fill if replaces else scores + fill)
        return softmax(scores) @ value

    return function


@pytest.mark.parametrize(
    ("fill", "replaces", "shift", "gap"),
    [
        (-1e-9, True, 0.0, 0.0),
        (1e9, True, 0.0, 0.0),
        (-20.0, True, 0.0, 0.0),
        (-100.0, True, -1e5, 0.0),
        (-1e4, True, -1e5, 0.0),
        (-100.0, False, 0.0, 1000.0),
        (-1e4, False, 0.0, 1e5),
    ],
)
def test_fills_that_leak(fill: float, replaces: bool, shift: float, gap: float) -> None:
    facts = facts_of(filled(fill, replaces))
    if fill == -20.0:
        # e^-20 is below what counts as a leak until scores are moved.
        shift = -1e5
    if fill < 0.0:
        assert facts.leak > 1e-6
        assert (facts.leak_shift, facts.leak_gap) == (shift, gap)
    else:
        assert facts.boolean in ("true_forbids", "other")


@pytest.mark.parametrize("fill", [-np.inf, -1e30, float(np.finfo(np.float32).min)])
def test_fills_that_hold(fill: float) -> None:
    with np.errstate(invalid="ignore"):
        assert facts_of(filled(fill)).leak == 0.0


def test_polarity() -> None:
    def hides(query, key, value, mask=None):
        return functions.masked(query, key, value, None if mask is None else ~mask)

    def adds(query, key, value, mask=None):
        scores = scaled(query, key)
        return softmax(scores if mask is None else scores + mask) @ value

    def ignores(query, key, value, mask=None):
        return functions.standard(query, key, value)

    assert facts_of(functions.masked).boolean == "true_attends"
    assert facts_of(hides).boolean == "true_forbids"
    assert facts_of(adds).boolean == "added"
    assert facts_of(ignores).boolean == "none"


def test_the_name_of_a_padding_mask_says_which_way_it_goes() -> None:
    def padded(query, key, value, key_padding_mask=None):
        mask = None if key_padding_mask is None else ~key_padding_mask[:, None, None, :]
        return functions.masked(query, key, value, mask)

    sheet = identify(padded)
    assert sheet.behaviour.mask.documented == "true_forbids"
    assert sheet.behaviour.mask.boolean == "true_forbids"
    assert sheet.behaviour.arguments["key_padding_mask"].effect == "as-asked"


def test_a_mask_after_the_softmax() -> None:
    def after(query, key, value, mask=None):
        weights = softmax(scaled(query, key))
        return (weights if mask is None else weights * mask) @ value

    facts = facts_of(after)
    assert facts.after_softmax
    assert facts.masked_sum_min < 0.9


def test_a_bias_scaled_with_the_scores() -> None:
    def scaled_too(query, key, value, bias=0.0):
        return softmax((functions.products(query, key) + bias) * query.shape[-1] ** -0.5) @ value

    facts = facts_of(scaled_too)
    assert facts.bias_factor == pytest.approx(0.25, rel=1e-4)
    assert facts.bias_factor_law == "the scale"


def causal(shift):
    def function(query, key, value, is_causal=False):
        scores = scaled(query, key)
        if is_causal:
            queries, keys = scores.shape[-2:]
            visible = np.tri(queries, keys, shift(queries, keys), dtype=bool)
            scores = np.where(visible, scores, -1e30)
        return softmax(scores) @ value

    return function


@pytest.mark.parametrize(
    ("shift", "alignment", "offset"),
    [
        (lambda q, k: 0, "top_left", None),
        (lambda q, k: k - q, "bottom_right", None),
        (lambda q, k: k - q if k > q else 0, "mixed", None),
        (lambda q, k: k - q + 1, "off-by-one", 1),
        (lambda q, k: k - q - 1, "off-by-one", -1),
        (lambda q, k: k, "none", None),
    ],
    ids=["top-left", "bottom-right", "mixed", "ahead", "behind", "none"],
)
def test_alignment(shift, alignment: str, offset: int | None) -> None:
    facts = facts_of(causal(shift))
    assert (facts.alignment, facts.alignment_offset) == (alignment, offset)


def test_key_value_heads() -> None:
    def shared(query, key, value, how):
        group = query.shape[1] // key.shape[1]
        if how == "repeated":
            key, value = (np.repeat(a, group, axis=1) for a in (key, value))
        else:
            key, value = (np.tile(a, (1, group, 1, 1)) for a in (key, value))
        return functions.standard(query, key, value)

    repeated = identify(lambda q, k, v: shared(q, k, v, "repeated")).behaviour.heads
    tiled = identify(lambda q, k, v: shared(q, k, v, "tiled")).behaviour.heads
    assert (repeated.pattern, repeated.kv_map) == ("repeated", (0, 0, 0, 1, 1, 1))
    assert (tiled.pattern, tiled.kv_map) == ("tiled", (0, 1, 0, 1, 0, 1))


def test_heads_and_sequence_exchanged() -> None:
    sheet = identify(functions.standard, layout="bshd")
    assert sheet.behaviour.heads.swapped
    assert identify(functions.standard).behaviour.heads.swapped is False


@pytest.mark.parametrize(("reach", "seen"), [((2, 1), (2, 1)), ((3, 0), (3, 0))])
def test_windows(reach: tuple[int, int], seen: tuple[int, int]) -> None:
    windows = facts_of(functions.with_everything).window
    (one,) = [w for w in windows if w.asked == repr(reach)]
    assert one.seen_reach == seen
