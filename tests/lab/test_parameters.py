"""Parameters: what text and values become, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from rootdk._lib.errors import ArgumentError
from rootdk.lab._parameters import parameter, parameters_of


def _even(value: int) -> None:
    if value % 2:
        raise ArgumentError.unexpected("value", value, "an even number")


@dataclass(frozen=True, kw_only=True)
class Some:
    """Parameters of every kind."""

    count: int = parameter(4, "a count", least=1, most=9)
    size: float = parameter(1.0, "a size")
    flag: bool = parameter(False, "a flag")
    way: str = parameter("left", "a way", choices=("left", "right"))
    widths: tuple[int, ...] = parameter((4, 16), "widths", check=_even)
    names: tuple[str, ...] | None = parameter(None, "names")


KNOWN = parameters_of(Some)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("count", " 3 ", 3),
        ("size", "1e-3", 0.001),
        ("size", "2", 2.0),
        ("flag", "Yes", True),
        ("flag", "false", False),
        ("way", "right", "right"),
        ("widths", "2, 8", (2, 8)),
        ("widths", "2", (2,)),
        ("names", "a,b", ("a", "b")),
        ("names", "none", None),
    ],
)
def test_text_becomes_a_value_of_the_right_type(name: str, text: str, value: object) -> None:
    read = KNOWN[name].read(text)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("count", "0"),
        ("count", "10"),
        ("count", "1.5"),
        ("count", "none"),
        ("size", "large"),
        ("size", "nan"),
        ("size", "inf"),
        ("flag", "1"),
        ("way", "up"),
        ("widths", ""),
        ("widths", "4,"),
        ("widths", "4 16"),
    ],
)
def test_what_means_nothing_is_refused_with_what_was_expected(name: str, text: str) -> None:
    with pytest.raises(ArgumentError, match=rf"^{name} is .*; expected "):
        KNOWN[name].read(text)


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("count", np.int64(3), 3),
        ("size", 2, 2.0),
        ("size", np.float32(0.5), 0.5),
        ("widths", [2, 4], (2, 4)),
        ("widths", range(2, 6, 2), (2, 4)),
    ],
)
def test_a_value_is_kept_in_its_own_type(name: str, value: Any, kept: Any) -> None:
    valid = KNOWN[name].valid(value)
    assert valid == kept
    assert type(valid) is type(kept)


@pytest.mark.parametrize(
    ("name", "value"),
    [("count", True), ("count", 2.0), ("size", "2"), ("widths", 4), ("widths", ()), ("way", 3),
     ("widths", (4, "6")), ("count", None)],
)  # fmt: skip
def test_a_value_of_another_type_is_refused(name: str, value: object) -> None:
    with pytest.raises(ArgumentError, match=rf"^{name} is "):
        KNOWN[name].valid(value)


def test_each_item_is_checked() -> None:
    with pytest.raises(ArgumentError, match="expected an even number"):
        KNOWN["widths"].read("4,5")


def test_a_parameter_says_what_it_expects() -> None:
    assert KNOWN["count"].expected == "a whole number from 1 to 9"
    assert KNOWN["way"].expected == "one of left, right"
    expected = "one or more, each a text, with commas between them, or none"
    assert KNOWN["names"].expected == expected


def test_a_field_that_is_no_parameter_is_a_fault_of_the_experiment() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Wrong:
        plain: int = 3

    @dataclass(frozen=True, kw_only=True)
    class Strange:
        value: complex = parameter(1j, "a complex number")

    with pytest.raises(TypeError, match=r"Wrong\.plain is no parameter"):
        parameters_of(Wrong)
    with pytest.raises(TypeError, match="is no type of a parameter"):
        parameters_of(Strange)
