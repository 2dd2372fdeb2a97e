"""Axis, sums, caps, sinks and biases of a plain call."""

import numpy as np
import pytest
from identify import functions

from rootdk import identify

FORMULAS = {
    "standard": "softmax(query·keyᵀ/√head_dim) · value",
    "scale_behind": "1/√head_dim · softmax(query·keyᵀ) · value",
    "over_the_queries": "softmax(query·keyᵀ/√head_dim) over queries · value",
    "over_the_heads": "softmax(query·keyᵀ/√head_dim) over heads · value",
    "slots": "rows of [softmax(query·keyᵀ/√head_dim) over queries] divided by their sum · value",
    "twice": "softmax(softmax(query·keyᵀ/√head_dim)) · value",
    "capped": "softmax(50·tanh(query·keyᵀ/√head_dim / 50)) · value",
    "clipped": "softmax(clip(query·keyᵀ/√head_dim, ±30)) · value",
    "slopes": "softmax(query·keyᵀ/√head_dim + slope(head)·key) · value",
    "plus_one": "exp(query·keyᵀ/√head_dim) / (1 + Σ exp(query·keyᵀ/√head_dim)) · value",
    "always_causal": "softmax(query·keyᵀ/√head_dim where key ≤ query) · value",
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formula(name: str) -> None:
    sheet = identify(getattr(functions, name))
    assert sheet.formula == FORMULAS[name]
    assert sheet.behaviour.verified.agrees


def test_what_is_no_softmax_has_no_formula() -> None:
    sheet = identify(functions.linear)
    assert sheet.formula is None
    assert not sheet.behaviour.understood


def test_axis_over_queries() -> None:
    facts = identify(functions.over_the_queries).behaviour.softmax
    assert facts.axis == "queries"
    assert not facts.rows_normalised
    facts = identify(functions.slots).behaviour.softmax
    assert facts.axis == "queries"
    assert facts.renormalised


def test_sums_of_rows() -> None:
    facts = identify(functions.scale_behind).behaviour.softmax
    assert facts.factor == pytest.approx(0.25, rel=1e-5)
    assert facts.factor_law.name == "1/√head_dim"


def test_sinks() -> None:
    facts = identify(functions.plus_one).behaviour.softmax
    assert facts.sink == pytest.approx((0.0, 0.0, 0.0), abs=1e-4)
    assert not facts.sink_follows_maximum
    facts = identify(functions.plus_one_of_the_maximum).behaviour.softmax
    assert facts.sink_follows_maximum


def test_softcaps() -> None:
    tanh = identify(functions.capped).behaviour.softcap
    assert (tanh.form, tanh.value) == ("tanh", pytest.approx(50.0, rel=5e-3))
    clip = identify(functions.clipped).behaviour.softcap
    assert (clip.form, clip.value) == ("clamp", pytest.approx(30.0, rel=2e-2))
    assert identify(functions.standard).behaviour.softcap is None


def test_slopes_of_a_bias() -> None:
    bias = identify(functions.slopes).behaviour.bias
    assert bias.kind == "alibi"
    assert bias.slopes == pytest.approx(2.0 ** (-8.0 * np.arange(1, 4) / 3), rel=1e-4)
    assert identify(functions.standard).behaviour.bias.kind == "none"


def test_always_causal() -> None:
    mask = identify(functions.always_causal).behaviour.mask
    assert mask.always_causal
    assert mask.alignment == "bottom_right"


def test_precision_in_numpy() -> None:
    facts = identify(functions.standard).behaviour.precision
    assert set(facts) == {"float32", "float64"}
    for one in facts.values():
        assert one.error <= one.bound
        assert one.shift_breaks_at is None
        assert one.product_breaks_at is None
    asked = identify(functions.standard, dtype="float16").behaviour
    assert asked.dtype_asked == "float16"
    assert set(asked.precision) == {"float16"}


def test_a_bare_exponential_breaks_where_exp_ends() -> None:
    facts = identify(functions.bare).behaviour.precision["float32"]
    # math.sqrt is a Python float, so the products stay in float32, whose exp ends at 88.7.
    assert facts.shift_breaks_at == 96.0
    assert facts.shift_outcome == "nan"


@pytest.mark.parametrize("layout", ["bshd", "sbhd", "bs(hd)"])
def test_layouts(layout: str) -> None:
    from rootdk._lib.layouts import parse_layout

    there = parse_layout(layout)

    def laid_out(query, key, value, num_heads):
        arrays = (there.to_canonical(a, heads=num_heads) for a in (query, key, value))
        return there.from_canonical(functions.standard(*arrays))

    sheet = identify(laid_out, layout=layout)
    assert sheet.formula == FORMULAS["standard"]
    assert sheet.behaviour.scale.law.heads.value == pytest.approx(0.0, abs=1e-5)


def test_few_axes() -> None:
    sheet = identify(functions.standard, layout="sd")
    assert sheet.formula == FORMULAS["standard"]
    assert sheet.behaviour.heads.pattern is None
