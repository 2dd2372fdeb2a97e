"""Expressions in settings: what they mean, and that nothing else runs."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rootdk._lib.errors import ArgumentError
from rootdk._lib.expressions import evaluate

FACTS = {"head_dim": 64, "hidden": 768, "heads": 12, "keys": 100}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1/sqrt(head_dim)", 0.125),
        ("head_dim ** -0.5", 0.125),
        ("-(2 - 3) * +4", 4.0),
        ("1/sqrt(hidden / heads)", 0.125),
        ("log2(head_dim)", 6.0),
        ("log(keys)", math.log(100)),
        ("min(head_dim, keys, 3)", 3.0),
        ("max(head_dim, keys)", 100.0),
        ("pi", math.pi),
        ("  .5  ", 0.5),
        ("1e-3", 1e-3),
        ("2 ** 3 ** 2", 512.0),
        ("7 / 2", 3.5),
    ],
)
def test_an_expression_means_what_arithmetic_says(expression: str, value: float) -> None:
    assert evaluate(expression, FACTS) == value


@pytest.mark.parametrize(
    ("expression", "fact"),
    [
        ("", "it cannot be read"),
        ("1/", "it cannot be read"),
        ("1/sqrt(d_model)", "d_model is not known here"),
        ("1/0", "it divides by zero"),
        ("0 ** -1", "it divides by zero"),
        ("sqrt(-1)", "sqrt(-1) has no real value"),
        ("log(0)", "log(0) has no real value"),
        ("(-8) ** 0.5", "-8 to the power 0.5 is not real"),
        ("2 ** 65", "the exponent 65 is beyond ±64"),
        ("1e308 * 10", "its value is inf"),
        ("(10 ** 60) ** 10", "its value is too large"),
        ("1" + "+1" * 120, "it has 241 characters; at most 200"),
        ("sqrt(1, 2)", "sqrt takes 1 to 1 values, not 2"),
        ("sqrt()", "sqrt takes 1 to 1 values, not 0"),
        ("abs(1)", "abs is no function here"),
        ("sqrt", "sqrt is not known here"),
        ("'a'", "'a' is no arithmetic"),
        ("True", "True is no arithmetic"),
        ("1j", "1j is no arithmetic"),
        ("[1]", "[1] is no arithmetic"),
        ("1 if heads else 2", "is no arithmetic"),
        ("heads // 2", "is no arithmetic"),
        ("heads < 2", "is no arithmetic"),
        ("head_dim.real", "head_dim.real is no arithmetic"),
        ("sqrt(x=1)", "is no arithmetic"),
        ("sqrt(*[1])", "is no arithmetic"),
        ("().__class__", "is no arithmetic"),
        ("(lambda: 1)()", "is no arithmetic"),
        ("x := 1", "it cannot be read"),
    ],
)
def test_anything_else_is_refused_with_the_fact(expression: str, fact: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        evaluate(expression, FACTS)
    assert fact in str(caught.value)


def test_the_message_shows_expression_fact_and_allowed_names() -> None:
    with pytest.raises(ArgumentError) as caught:
        evaluate("1/sqrt(width)", {"head_dim": 8, "keys": 3})
    assert str(caught.value) == (
        "expression '1/sqrt(width)': width is not known here; allowed are the names head_dim, "
        "keys, pi, the functions log, log2, max, min, sqrt, and + - * / ** ( )"
    )


@given(st.text(max_size=60))
def test_no_text_does_anything_but_give_a_finite_number_or_an_argument_error(text: str) -> None:
    try:
        value = evaluate(text, FACTS)
    except ArgumentError:
        return
    assert math.isfinite(value)


def test_a_long_integer_is_merely_a_large_float() -> None:
    assert evaluate("9" * 199, FACTS) == pytest.approx(1e199)


def test_deep_nesting_is_refused_not_a_crash() -> None:
    with pytest.raises(ArgumentError):
        evaluate("(" * 99 + "1" + ")" * 98, FACTS)
    assert evaluate("(" * 90 + "1" + ")" * 90, FACTS) == 1.0
