import pytest
from hypothesis import given
from hypothesis import strategies as st

from rootdk._lib.dimensions import NO_BINDINGS, Binding, bind, shape_error
from rootdk._lib.errors import ArgumentError, ShapeError

sizes = st.integers(0, 5)


def lines_of(*arguments):
    with pytest.raises(ShapeError) as caught:
        bind(*arguments)
    return str(caught.value).splitlines()


def test_names_are_bound_once_and_remember_who_bound_them():
    bound = bind("query", (5, 64), "queries head_dim")
    bound = bind("key", (7, 64), "keys head_dim", bound)
    assert dict(bound) == {
        "queries": Binding(5, "query"),
        "head_dim": Binding(64, "query"),
        "keys": Binding(7, "key"),
    }


def test_bindings_are_never_changed_in_place():
    first = bind("query", (5,), "queries")
    bind("key", (7,), "keys", first)
    assert list(first) == ["queries"]
    assert not NO_BINDINGS
    with pytest.raises(TypeError):
        first["queries"] = Binding(6, "other")


def test_another_size_says_everything():
    bound = bind("query", (5, 64), "queries head_dim")
    assert lines_of("key", (7, 32), "keys head_dim", bound) == [
        "dimension 1 of key (head_dim) has size 32; expected 64",
        "  key has shape (7, 32)",
        "  expected (keys, head_dim)",
        "  where queries = 5 (from query)",
        "        head_dim = 64 (from query)",
        "        keys = 7 (from key)",
    ]


def test_one_name_twice_in_one_pattern_must_agree():
    assert lines_of("weights", (3, 4), "keys keys") == [
        "dimension 1 of weights (keys) has size 4; expected 3",
        "  weights has shape (3, 4)",
        "  expected (keys, keys)",
        "  where keys = 3 (from weights)",
    ]


def test_a_literal_size_is_itself():
    assert not bind("window", (2,), "2")
    assert lines_of("window", (3,), "2") == [
        "dimension 0 of window (2) has size 3; expected 2",
        "  window has shape (3,)",
        "  expected (2,)",
        "  no dimension is bound yet",
    ]


def test_the_wrong_number_of_dimensions():
    assert lines_of("key", (3,), "keys head_dim") == [
        "key has 1 dimensions; expected 2",
        "  key has shape (3,)",
        "  expected (keys, head_dim)",
        "  no dimension is bound yet",
    ]
    assert lines_of("mask", (1, 2, 3, 4), "[1|heads] [queries] keys")[:3] == [
        "mask has 4 dimensions; expected 1 to 3",
        "  mask has shape (1, 2, 3, 4)",
        "  expected ([1 or heads], [queries], keys)",
    ]


def test_a_broadcast_dimension_of_one_binds_nothing():
    assert not bind("mask", (1, 1), "1|queries 1|keys")
    assert dict(bind("mask", (1, 4), "1|queries 1|keys")) == {"keys": Binding(4, "mask")}


def test_a_broadcast_dimension_names_both_sizes():
    bound = bind("query", (5,), "queries")
    assert lines_of("mask", (4,), "1|queries", bound)[0] == (
        "dimension 0 of mask (queries) has size 4; expected 1 or 5"
    )


@given(sizes, sizes, st.sampled_from(["same", "one", "other"]))
def test_broadcasting_is_numpys(queries, keys, kind):
    shape = {"same": (queries, keys), "one": (1, keys), "other": (queries + 1, keys)}[kind]
    bound = bind("query", (queries,), "queries")
    fits = shape[0] in (1, queries)
    if fits:
        assert bind("mask", shape, "1|queries keys", bound)["queries"].size == queries
    else:
        assert lines_of("mask", shape, "1|queries keys", bound)


@given(st.lists(sizes, min_size=1, max_size=3))
def test_optional_dimensions_are_dropped_from_the_left(shape):
    bound = bind("x", shape, "[batch] [heads] keys")
    names = ["batch", "heads", "keys"][-len(shape) :]
    assert {name: binding.size for name, binding in bound.items()} == dict(
        zip(names, shape, strict=True)
    )


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("keys [batch]", "its optional dimensions to stand first"),
        ("keys -1", "each word to be name, 1|name or [name], which '-1' is not"),
    ],
)
def test_a_malformed_pattern_is_refused(pattern, expected):
    with pytest.raises(ArgumentError) as caught:
        bind("x", (1, 2), pattern)
    assert str(caught.value) == f"pattern is {pattern!r}; expected {expected}"


def test_any_fact_can_be_stated_with_the_shapes():
    bound = bind("query", (6, 64), "num_heads head_dim")
    error = shape_error("6 is no multiple of 4", "key", [4, 64], "num_kv_heads head_dim", bound)
    assert isinstance(error, ShapeError)
    assert str(error).splitlines() == [
        "6 is no multiple of 4",
        "  key has shape (4, 64)",
        "  expected (num_kv_heads, head_dim)",
        "  where num_heads = 6 (from query)",
        "        head_dim = 64 (from query)",
    ]
