"""Axes of scores followed through layout operations, held against tensors of coordinates."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rootdk.frontends._graph.axes import AxesLostError, advance, product_axes
from rootdk.frontends._graph.node import Kind, Node


def node(op: str, shape: tuple[int, ...], **attrs: object) -> Node:
    return Node(1, op, (), shape=shape, dtype="float32", kind=Kind.ACTIVATION, attrs=attrs)


def coordinates(shape: tuple[int, ...]) -> np.ndarray:
    """One number for each place of the product."""
    return np.arange(int(np.prod(shape))).reshape(shape)


def factorisations(size: int) -> list[tuple[int, int]]:
    return [(a, size // a) for a in range(1, size + 1) if size % a == 0]


@st.composite
def walks(draw: st.DrawFn):
    """A product's shape, and a few layout operations over it with their effect."""
    leading = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), max_size=2)))
    shape = (*leading, draw(st.sampled_from([1, 3, 4, 5])), draw(st.sampled_from([1, 4, 6, 7])))
    places = coordinates(shape)
    steps: list[Node] = []
    for _ in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from(["permute", "split", "merge", "unsqueeze", "slice"]))
        rank = places.ndim
        if kind == "permute":
            dims = tuple(draw(st.permutations(range(rank))))
            places = places.transpose(dims)
            steps.append(node("permute", places.shape, dims=dims))
        elif kind == "split":
            at = draw(st.integers(0, rank - 1))
            pair = draw(st.sampled_from(factorisations(places.shape[at])))
            places = places.reshape((*places.shape[:at], *pair, *places.shape[at + 1 :]))
            steps.append(node("view", places.shape))
        elif kind == "merge" and rank > 1:
            at = draw(st.integers(0, rank - 2))
            both = places.shape[at] * places.shape[at + 1]
            places = places.reshape((*places.shape[:at], both, *places.shape[at + 2 :]))
            steps.append(node("view", places.shape))
        elif kind == "unsqueeze":
            at = draw(st.integers(0, rank))
            places = np.expand_dims(places, at)
            steps.append(node("unsqueeze", places.shape, dim=at))
        elif kind == "slice" and places.shape[-1] > 1:
            places = places[..., 1:]
            steps.append(node("slice", places.shape, dim=rank - 1, start=1, step=1))
    return shape, places, steps


@given(walks())
def test_every_entry_is_where_the_axes_say(walk) -> None:
    shape, places, steps = walk
    axes = product_axes(shape[:-2], shape[-2], shape[-1])
    try:
        for step in steps:
            axes = advance(step, axes)
    except AxesLostError as lost:
        # Only a slice that is reshaped, or two axes cut at another place, may be given up.
        if "slice" not in str(lost) and "was reshaped" not in str(lost):
            raise
        return
    assert axes.shape == places.shape
    names = [f"L{i}" for i in range(len(shape) - 2)] + ["Q", "K"]
    for number in np.unique(places)[:40]:
        index = dict(zip(names, np.unravel_index(number, shape), strict=True))
        where = axes.place({name: int(value) for name, value in index.items()})
        assert places[where] == number


@given(walks(), st.data())
def test_digits_of_a_position_add_up_to_the_labels(walk, data: st.DataObject) -> None:
    shape, places, steps = walk
    axes = product_axes(shape[:-2], shape[-2], shape[-1])
    try:
        for step in steps:
            axes = advance(step, axes)
    except AxesLostError:
        return
    where = tuple(data.draw(st.integers(0, n - 1)) for n in places.shape)
    found = dict.fromkeys([f"L{i}" for i in range(len(shape) - 2)] + ["Q", "K"], 0)
    for dim, position in enumerate(where):
        for (label, stride), digit in axes.values(dim, position).items():
            found[label] += digit * stride
    assert tuple(found.values()) == np.unravel_index(places[where], shape)


def test_elementwise_operations_may_add_and_grow_dimensions() -> None:
    axes = product_axes((2,), 3, 4)
    grown = advance(node("add", (5, 2, 3, 4)), axes)
    assert [sorted(dim.labels) for dim in grown.dims[1:]] == [["L0"], ["Q"], ["K"]]
    (label,) = grown.dims[0].labels
    assert label.startswith("new")


def test_a_column_in_front_moves_the_scores_by_one() -> None:
    before = Node(1, "identity", (), shape=(2, 3, 1), dtype="float32", kind=Kind.ACTIVATION)
    scores = Node(2, "identity", (), shape=(2, 3, 4), dtype="float32", kind=Kind.ACTIVATION)
    joined = Node(
        3,
        "cat",
        (before, scores),
        shape=(2, 3, 5),
        dtype="float32",
        kind=Kind.ACTIVATION,
        attrs={"dim": 2},
    )
    axes = advance(joined, product_axes((2,), 3, 4), 1)
    assert axes.place({"L0": 1, "Q": 2, "K": 0}) == (1, 2, 1)


@pytest.mark.parametrize("op", ["rearrange", "gather", "stack"])
def test_what_moves_entries_freely_gives_the_axes_up(op: str) -> None:
    with pytest.raises(AxesLostError, match="rearranged"):
        advance(node(op, (2, 3, 4)), product_axes((2,), 3, 4))
