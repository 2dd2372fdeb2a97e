"""What a user declares of a site, and what is said when it does not hold."""

from typing import Any

import pytest
from report.diagnoses import site

from rootdk._lib.errors import ArgumentError
from rootdk.check import Expectation
from rootdk.check.expectations import apply_expectations, parse_expectations
from rootdk.records import Addend, AttentionSite, Expected

MASKED = {"addends": (Addend(kind="mask"),)}


def declared(expect: dict[str, Any], *sites: AttentionSite) -> tuple[Any, tuple[str, ...]]:
    return apply_expectations(sites or (site(),), parse_expectations(expect))


def test_a_number_is_the_expected_scale() -> None:
    (only,), remarks = declared({"blocks.*.attn": 0.0625})
    assert only.expected == Expected(value=0.0625, where="expect['blocks.*.attn']", by="user")
    assert remarks == ()


def test_an_expression_is_evaluated_at_each_site() -> None:
    sites = (site("a.0", hidden=256, layer=0), site("a.1", hidden=1024, layer=1))
    (first, second), _ = declared({"a.*": "(layer + 1) / sqrt(hidden)"}, *sites)
    assert (first.expected.value, second.expected.value) == (1 / 16, 2 / 32)
    assert first.expected.where == "expect['a.*'] = (layer + 1) / sqrt(hidden)"


def test_an_expression_can_use_every_size_that_is_known() -> None:
    sizes = site(head_dim=2, hidden=3, num_heads=5, keys=7, queries=11, layer=13)
    (only,), _ = declared({"*": "head_dim + hidden + heads + keys + queries + layer"}, sizes)
    assert only.expected.value == 41


def test_a_size_that_is_not_known_is_named_with_the_site() -> None:
    with pytest.raises(
        ArgumentError, match=r"^at a\.0: expression '1/hidden': hidden is not known"
    ):
        declared({"*": "1/hidden"}, site("a.0", hidden=None))


def test_a_glob_meets_names_and_module_paths_and_the_later_one_wins() -> None:
    both = site("attn#0", module_path="model.blocks.0")
    (only,), remarks = declared({"model.*": 1.0, "attn#?": 2.0}, both)
    assert only.expected.value == 2.0
    assert remarks == ()


def test_sites_that_nothing_matches_keep_what_their_config_said() -> None:
    config = Expected(value=1.0, where="config.scale", by="config")
    (only,), remarks = declared({"other": 1.0}, site(expected=config))
    assert only.expected == config
    assert remarks == ("expect['other'] matches no attention site",)


@pytest.mark.parametrize(
    ("wanted", "facts", "remark"),
    [
        ({"softcap": 50}, {"softcap": 50.0}, None),
        ({"softcap": "hidden / 8"}, {"softcap": 32.0}, None),
        ({"softcap": 50}, {"softcap": 30.0}, "the softcap is 30; expected 50"),
        ({"softcap": 50}, {}, "the softcap is none; expected 50"),
        ({"softcap": "none"}, {"softcap": 30.0}, "the softcap is 30; expected none"),
        ({"softcap": "none"}, {}, None),
        ({"causal": "bottom_right"}, {"causal": "bottom_right"}, None),
        ({"causal": "bottom_right"}, {}, "the causal mask is none; expected bottom_right"),
        ({"causal": "none"}, {"causal": "top_left"}, "the causal mask is top_left; expected none"),
        ({"causal": "bottom_right"}, {"causal": "top_left"}, None),
        (
            {"causal": "bottom_right"},
            {"causal": "top_left", "keys": 99},
            "the causal mask is top_left; expected bottom_right",
        ),
        ({"causal": "top_left"}, MASKED, "the causal mask is not known; expected top_left"),
        ({"causal": "none"}, MASKED, "the causal mask is not known; expected none"),
        ({"causal": "none"}, {}, None),
        ({"causal": "none"}, {"causal": "top_left", "unresolved": "odd"}, None),
    ],
    ids=str,
)
def test_a_softcap_and_an_alignment_that_do_not_hold_are_remarked_upon(
    wanted: dict[str, Any], facts: dict[str, Any], remark: str | None
) -> None:
    (only,), remarks = declared({"*": wanted}, site(**facts))
    assert only.expected is None
    assert remarks == (() if remark is None else (f"blocks.0.attn: {remark}",))


def test_the_forms_of_one_expectation() -> None:
    parsed = parse_expectations(
        {"a": 1, "b": "1/2", "c": {"scale": 1.0, "causal": "none"}, "d": Expectation(softcap=2.0)}
    )
    assert parsed["a"] == Expectation(scale=1)
    assert parsed["b"] == Expectation(scale="1/2")
    assert parsed["c"] == Expectation(scale=1.0, causal="none")
    assert parsed["d"] == Expectation(softcap=2.0)


@pytest.mark.parametrize(
    ("expect", "message"),
    [
        (3, "expect is 3; expected a mapping from a glob of sites to a scale"),
        ({"a": None}, "expect['a'] is None; expected a number, an expression or a mapping"),
        ({"a": True}, "expect['a'] is True; expected a number, an expression or a mapping"),
        ({"a": float("nan")}, "expect['a'] scale is nan; expected a finite number"),
        ({"a": {"scal": 1}}, "expect['a'] has scal; expected only scale, softcap, causal"),
        ({"a": {"softcap": [1]}}, "expect['a'] softcap is [1]; expected a finite number"),
        ({"a": {"causal": "left"}}, "expect['a'] causal is 'left'; expected one of top_left"),
    ],
    ids=str,
)
def test_what_is_no_expectation_is_refused(expect: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        parse_expectations(expect)
    assert str(caught.value).startswith(message)
