import array_api_compat
import numpy as np
import pytest
from attention_backends import on_every_backend
from hypothesis import given
from hypothesis import strategies as st

from rootdk._lib.arrays import device, to_numpy
from rootdk._lib.errors import ArgumentError, DtypeError, ShapeError
from rootdk.attention import band, visibility
from rootdk.attention.masks import diagonal_shift

sides = st.none() | st.integers(0, 6)
alignments = st.sampled_from([None, "top_left", "bottom_right"])
counts = st.integers(0, 6)


def drawn(visible):
    """The picture of who sees whom: a line per query, # where it sees the key."""
    return ["".join(".#"[int(sees)] for sees in row) for row in to_numpy(visible)]


@on_every_backend
@pytest.mark.parametrize(
    ("options", "picture"),
    [
        pytest.param({}, ["#####"] * 3, id="open"),
        pytest.param({"causal": "top_left"}, ["#....", "##...", "###.."], id="top-left"),
        pytest.param({"causal": "bottom_right"}, ["###..", "####.", "#####"], id="bottom-right"),
        pytest.param({"window": (1, 1)}, ["##...", "###..", ".###."], id="window"),
        pytest.param({"window": (0, None)}, ["#####", ".####", "..###"], id="window-right-open"),
        pytest.param({"window": (None, 0)}, ["#....", "##...", "###.."], id="window-left-open"),
        pytest.param({"window": (None, None)}, ["#####"] * 3, id="window-open"),
        pytest.param(
            {"causal": "bottom_right", "window": (1, 0)},
            [".##..", "..##.", "...##"],
            id="window-from-the-bottom-right",
        ),
        pytest.param(
            {"causal": "bottom_right", "window": (1, 3)},
            [".##..", "..##.", "...##"],
            id="causal-order-closes-the-window",
        ),
    ],
)
def test_visibility_of_three_queries_and_five_keys(backend, options, picture):
    array = backend.array(0.0)
    xp = array_api_compat.array_namespace(array)
    visible = visibility(3, 5, xp=xp, device=device(array), **options)
    assert type(visible) is type(array)
    assert drawn(visible) == picture


def test_more_queries_than_keys_leave_rows_empty_at_the_bottom_right_only():
    assert drawn(visibility(4, 2, causal="bottom_right", xp=np)) == ["..", "..", "#.", "##"]
    assert drawn(visibility(4, 2, causal="top_left", xp=np)) == ["#.", "##", "##", "##"]


def test_a_mask_is_combined_with_causal_order_and_window():
    mask = np.asarray([True, True, False, True])
    visible = visibility(4, 4, mask=mask, causal="top_left", window=(2, 0), xp=np)
    assert drawn(visible) == ["#...", "##..", "##..", ".#.#"]


def test_a_mask_keeps_its_own_dimensions():
    mask = np.ones((2, 1, 3, 5), dtype=bool)
    assert visibility(3, 5, mask=mask, xp=np).shape == (2, 1, 3, 5)
    assert visibility(3, 5, mask=mask[:, :, :1], xp=np).shape == (2, 1, 3, 5)
    assert visibility(3, 5, mask=mask, rows=[2], xp=np).shape == (2, 1, 1, 5)


@on_every_backend
def test_rows_may_be_an_array_of_the_library(backend):
    rows = backend.array(np.asarray([2, 0]))
    xp = array_api_compat.array_namespace(rows)
    visible = visibility(3, 4, rows=rows, causal="top_left", xp=xp, device=device(rows))
    assert drawn(visible) == ["###.", "#..."]


@on_every_backend
def test_no_rows_give_no_rows(backend):
    xp = array_api_compat.array_namespace(backend.array(0.0))
    mask = backend.array(np.ones((3, 4), dtype=bool))
    assert visibility(3, 4, rows=[], mask=mask, causal="top_left", xp=xp).shape == (0, 4)


@given(counts, counts, alignments, sides, sides, st.data())
def test_rows_are_rows_of_the_whole(queries, keys, causal, left, right, data):
    rows = data.draw(st.lists(st.integers(0, queries - 1))) if queries else []
    shape = data.draw(st.sampled_from([(queries, keys), (1, keys), (keys,), (2, 1, queries, keys)]))
    bits = data.draw(st.integers(0, 2**32 - 1))
    mask = np.random.default_rng(bits).random(shape) < 0.5
    options = {"mask": mask, "causal": causal, "window": (left, right), "xp": np}
    whole = visibility(queries, keys, **options)
    chosen = visibility(queries, keys, rows=rows, **options)
    np.testing.assert_array_equal(chosen, whole[..., np.asarray(rows, dtype=int), :])


@given(counts, counts, alignments, sides, sides)
def test_causal_order_and_window_are_the_band_of_the_definition(queries, keys, causal, left, right):
    visible = visibility(queries, keys, causal=causal, window=(left, right), xp=np)
    shift = keys - queries if causal == "bottom_right" else 0
    for i in range(queries):
        for j in range(keys):
            ahead = j - (i + shift)
            assert visible[i, j] == (
                (left is None or ahead >= -left)
                and (right is None or ahead <= right)
                and (causal is None or ahead <= 0)
            )


@given(counts, alignments, sides, sides)
def test_the_alignments_agree_for_square_scores(size, causal, left, right):
    one, other = (
        visibility(size, size, causal=causal, window=(left, right), xp=np)
        for causal in ("top_left", "bottom_right")
    )
    np.testing.assert_array_equal(one, other)
    assert diagonal_shift(size, size, causal) == 0


def test_a_band_may_stand_anywhere():
    assert drawn(band(2, 4, shift=-1, left=0, right=1, xp=np)) == ["#...", "##.."]
    assert drawn(band(2, 4, shift=9, left=1, right=0, xp=np)) == ["....", "...."]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(
            {"causal": True},
            "causal is True; expected 'top_left', 'bottom_right', or None for no causal order",
            id="causal-true",
        ),
        pytest.param(
            {"causal": "upper"},
            "causal is 'upper'; expected 'top_left', 'bottom_right', or None for no causal order",
            id="causal-unknown",
        ),
        *(
            pytest.param(
                {"window": window},
                f"window is {window!r}; expected (left, right), each a whole number of keys "
                "from 0 up, or None for open",
                id=name,
            )
            for name, window in {
                "window-negative": (-1, 0),
                "window-very-negative": (0, -7),
                "window-fraction": (1.5, 0),
                "window-bool": (True, 0),
                "window-number": 128,
                "window-triple": (1, 2, 3),
            }.items()
        ),
    ],
)
def test_what_means_nothing_is_refused(options, message):
    with pytest.raises(ArgumentError) as caught:
        visibility(3, 5, xp=np, **options)
    assert str(caught.value) == message


def test_a_window_may_be_given_in_numpy_integers():
    assert drawn(visibility(2, 3, window=(np.int64(0), np.int32(1)), xp=np)) == ["##.", ".##"]


def test_a_mask_must_be_boolean_and_broadcast():
    with pytest.raises(DtypeError) as dtype_error:
        visibility(3, 5, mask=np.zeros((3, 5)), xp=np)
    assert str(dtype_error.value) == (
        "mask has dtype float64; expected bool, True where a query may attend "
        "(a term that is added to the scores is a bias)"
    )
    with pytest.raises(ShapeError) as caught:
        visibility(3, 5, mask=np.ones((5, 3), dtype=bool), xp=np)
    assert str(caught.value).splitlines() == [
        "dimension 0 of mask (queries) has size 5; expected 1 or 3",
        "  mask has shape (5, 3)",
        "  expected ([1 or batch], [1 or num_heads], [1 or queries], 1 or keys)",
        "  where queries = 3 (from queries)",
        "        keys = 5 (from keys)",
    ]
