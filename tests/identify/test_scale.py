"""The scale is measured to many digits, and its law is named or honestly is not."""

import math

import pytest
from identify import functions

from rootdk import identify

LAWS = {
    "standard": ("1/√head_dim", 0.25),
    "unscaled": ("1", 1.0),
    "over_width": ("1/head_dim", 1 / 16),
    "over_model_width": ("1/√(heads·head_dim)", 1 / math.sqrt(48)),
    "over_keys": ("1/√keys", 1 / math.sqrt(7)),
    "over_queries": ("1/√queries", 1 / math.sqrt(5)),
    "over_heads": ("1/√heads", 1 / math.sqrt(3)),
    "over_batch": ("1/√batch", 1 / math.sqrt(2)),
    "over_value_width": ("1/√value_dim", 1 / math.sqrt(45)),
    "times_root": ("√head_dim", 4.0),
    "times_eight": ("8", 8.0),
    "over_1024": ("0.00097656", 1 / 1024),
    "half_of_standard": ("0.5·1/√head_dim", 0.125),
    "by_log_of_keys": ("log(keys)/√head_dim", math.log(7) / 4),
}
MEASURED = 1e-5
"""Relative: a float32 weight gives a log-ratio to a few 1e-7, over a spread of a quarter."""


@pytest.mark.parametrize("name", LAWS)
def test_scale_and_law(name: str) -> None:
    law, value = LAWS[name]
    sheet = identify(getattr(functions, name))
    scale = sheet.behaviour.scale
    assert scale is not None
    assert scale.law is not None
    assert scale.law.name == law
    assert scale.value == pytest.approx(value, rel=MEASURED)
    assert scale.linear
    assert sheet.behaviour.understood
    assert all(point.uncertainty < 1e-5 * abs(point.scale) for point in scale.points)


def test_exponents_and_their_uncertainty() -> None:
    law = identify(functions.over_model_width).behaviour.scale.law
    right = {"head_dim": -0.5, "heads": -0.5, "keys": 0.0, "queries": 0.0, "batch": 0.0}
    for name, exponent in right.items():
        found = getattr(law, name)
        assert found.value == pytest.approx(exponent, abs=1e-5)
        assert abs(found.value - exponent) <= found.uncertainty + 1e-6
        assert found.uncertainty < 1e-4


def test_long_runs_of_keys_are_measured() -> None:
    points = identify(functions.standard).behaviour.scale.points
    assert max(point.sizes.keys for point in points) >= 300
    assert all(len({*_sizes(point.sizes)}) == 6 for point in points)


def _sizes(sizes):
    return (
        sizes.batch, sizes.heads, sizes.queries, sizes.keys, sizes.head_dim, sizes.value_dim
    )  # fmt: skip


def test_a_width_padded_to_a_multiple_follows_no_law() -> None:
    sheet = identify(functions.padded_width)
    assert sheet.behaviour.scale.law.name is None
    assert sheet.behaviour.scale.law.steps
    assert sheet.formula == "softmax(scale(sizes)·query·keyᵀ) · value"


@pytest.mark.parametrize(
    ("name", "along", "first", "last"),
    [
        ("by_head", "head", 0.25, 0.75),
        ("by_query", "query", 0.25, 0.35),
        ("by_channel", "channel", 0.25, 0.625),
    ],
)
def test_a_scale_that_varies(name: str, along: str, first: float, last: float) -> None:
    (varies,) = identify(getattr(functions, name)).behaviour.scale.varies
    assert varies.along == along
    assert varies.scales[0] == pytest.approx(first, rel=1e-3)
    assert varies.scales[-1] == pytest.approx(last, rel=1e-3)


def test_a_declared_scale() -> None:
    assert identify(functions.over_width, expect="1/head_dim").behaviour.scale_as_expected is True
    assert identify(functions.over_width, expect=0.25).behaviour.scale_as_expected is False
    assert identify(functions.over_width).behaviour.scale_as_expected is None


def test_cosine_attention() -> None:
    sheet = identify(functions.cosine)
    assert sheet.formula == "softmax(10·cos(query, key)) · value"
    assert sheet.behaviour.scale.normalised
    assert sheet.behaviour.scale.value == pytest.approx(10.0, rel=1e-4)
