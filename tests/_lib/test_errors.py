import inspect
import pickle
import re

import pytest

from rootdk._lib import errors
from rootdk._lib.errors import ArgumentError, MissingExtraError, RootdkError, ShapeError

CLASSES = [
    value
    for _, value in inspect.getmembers(errors, inspect.isclass)
    if issubclass(value, RootdkError)
]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_the_anchor_is_the_name_in_kebab_case(kind):
    words = re.findall("[A-Z][a-z]+", kind.__name__)
    assert kind.anchor == "-".join(words).lower()
    assert "anchor" in vars(kind), "an inherited anchor would point at another class"


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        ("ShapeError", ValueError),
        ("ArgumentError", ValueError),
        ("DtypeError", TypeError),
        ("ArrayError", TypeError),
        ("MissingExtraError", ImportError),
        ("TargetError", Exception),
        ("DiscoveryError", Exception),
        ("SweepError", Exception),
    ],
)
def test_each_is_what_python_would_have_raised(kind, builtin):
    assert issubclass(getattr(errors, kind), builtin)


def test_all_are_listed_in_these_tests():
    assert len(CLASSES) == 9


def test_unexpected_states_fact_value_and_expectation():
    error = ArgumentError.unexpected("softcap", -1.0, "a number above 0")
    assert type(error) is ArgumentError
    assert str(error) == "softcap is -1.0; expected a number above 0"


def test_a_missing_extra_says_what_to_install():
    error = MissingExtraError("jax", extra="jax", purpose="to trace a jaxpr")
    assert str(error) == (
        "jax is needed to trace a jaxpr, and it cannot be imported; "
        "install it with: pip install 'rootdk[jax]'"
    )
    assert (error.package, error.extra, error.purpose) == ("jax", "jax", "to trace a jaxpr")


@pytest.mark.parametrize(
    "error", [ShapeError("fact"), MissingExtraError("jax", extra="jax", purpose="to trace")]
)
def test_errors_survive_a_process_boundary(error):
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
