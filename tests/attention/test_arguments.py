"""The messages, line by line: they are what a person with the wrong shapes reads."""

import math

import numpy as np
import pytest
import torch

from rootdk._lib.errors import ArgumentError, ArrayError, DtypeError, ShapeError
from rootdk.attention import attention
from rootdk.attention.arguments import bind_shapes, resolve_scale


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype=dtype)


Q, K, V = zeros(2, 8, 5, 64), zeros(2, 4, 7, 64), zeros(2, 4, 7, 32)


def message_of(kind, *arrays, **options):
    with pytest.raises(kind) as caught:
        attention(*arrays, **options)
    return str(caught.value)


def test_every_dimension_is_bound_by_the_argument_that_names_it_first():
    bound = bind_shapes(Q, K, V)
    assert {name: (b.size, b.argument) for name, b in bound.items()} == {
        "batch": (2, "query"),
        "num_heads": (8, "query"),
        "queries": (5, "query"),
        "head_dim": (64, "query"),
        "num_kv_heads": (4, "key"),
        "keys": (7, "key"),
        "value_dim": (32, "value"),
    }


@pytest.mark.parametrize(
    ("arrays", "options", "lines"),
    [
        pytest.param(
            (zeros(64), K, V),
            {},
            [
                "query has 1 dimensions; expected 2 to 4",
                "  query has shape (64,)",
                "  expected ([batch], [num_heads], queries, head_dim)",
                "  no dimension is bound yet",
            ],
            id="query-rank",
        ),
        pytest.param(
            (Q, zeros(2, 4, 7, 16), V),
            {},
            [
                "dimension 3 of key (head_dim) has size 16; expected 64",
                "  key has shape (2, 4, 7, 16)",
                "  expected (batch, num_kv_heads, keys, head_dim)",
                "  where batch = 2 (from query)",
                "        num_heads = 8 (from query)",
                "        queries = 5 (from query)",
                "        head_dim = 64 (from query)",
                "        num_kv_heads = 4 (from key)",
                "        keys = 7 (from key)",
            ],
            id="key-head-dim",
        ),
        pytest.param(
            (zeros(5, 64), zeros(4, 7, 64), zeros(7, 32)),
            {},
            [
                "key has 3 dimensions; expected 2",
                "  key has shape (4, 7, 64)",
                "  expected (keys, head_dim)",
                "  where queries = 5 (from query)",
                "        head_dim = 64 (from query)",
            ],
            id="key-rank",
        ),
        pytest.param(
            (Q, zeros(2, 3, 7, 64), V),
            {},
            [
                "num_heads is 8; expected a multiple of num_kv_heads, 3",
                "  key has shape (2, 3, 7, 64)",
                "  expected (batch, num_kv_heads, keys, head_dim)",
                "  where batch = 2 (from query)",
                "        num_heads = 8 (from query)",
                "        queries = 5 (from query)",
                "        head_dim = 64 (from query)",
                "        num_kv_heads = 3 (from key)",
                "        keys = 7 (from key)",
            ],
            id="heads-not-shared-evenly",
        ),
        pytest.param(
            (Q, K, zeros(2, 4, 6, 32)),
            {},
            [
                "dimension 2 of value (keys) has size 6; expected 7",
                "  value has shape (2, 4, 6, 32)",
                "  expected (batch, num_kv_heads, keys, value_dim)",
                "  where batch = 2 (from query)",
                "        num_heads = 8 (from query)",
                "        queries = 5 (from query)",
                "        head_dim = 64 (from query)",
                "        num_kv_heads = 4 (from key)",
                "        keys = 7 (from key)",
            ],
            id="value-keys",
        ),
        pytest.param(
            (Q, K, V),
            {"mask": np.ones((2, 5, 7), dtype=bool)},
            [
                "dimension 0 of mask (num_heads) has size 2; expected 1 or 8",
                "  mask has shape (2, 5, 7)",
                "  expected ([1 or batch], [1 or num_heads], [1 or queries], 1 or keys)",
                "  where batch = 2 (from query)",
                "        num_heads = 8 (from query)",
                "        queries = 5 (from query)",
                "        head_dim = 64 (from query)",
                "        num_kv_heads = 4 (from key)",
                "        keys = 7 (from key)",
                "        value_dim = 32 (from value)",
            ],
            id="mask-of-batch-without-heads",
        ),
        pytest.param(
            (zeros(5, 64), zeros(7, 64), zeros(7, 32)),
            {"bias": zeros(1, 5, 7)},
            [
                "bias has 3 dimensions; expected 1 to 2",
                "  bias has shape (1, 5, 7)",
                "  expected ([1 or queries], 1 or keys)",
                "  where queries = 5 (from query)",
                "        head_dim = 64 (from query)",
                "        keys = 7 (from key)",
                "        value_dim = 32 (from value)",
            ],
            id="bias-rank",
        ),
    ],
)
def test_a_shape_that_does_not_fit_says_all_that_is_known(arrays, options, lines):
    assert message_of(ShapeError, *arrays, **options).splitlines() == lines


def test_shapes_of_torch_tensors_read_the_same():
    message = message_of(ShapeError, torch.zeros(2, 3), torch.zeros(2, 4), torch.zeros(2, 4))
    assert message.splitlines()[1] == "  key has shape (2, 4)"


def test_no_head_dim_has_no_default_scale():
    empty = zeros(3, 0)
    assert message_of(ShapeError, empty, empty, zeros(3, 1)) == (
        "head_dim is 0; expected at least 1 when no scale is given"
    )
    assert (
        attention(empty, empty, np.ones((3, 1)).astype(np.float32), scale=1.0).tolist()
        == [[1.0]] * 3
    )


@pytest.mark.parametrize(
    ("kind", "arrays", "options", "message"),
    [
        pytest.param(
            ArrayError,
            ([[0.0]], K, V),
            {},
            "query is a list; expected an array of NumPy, torch, JAX or another array API library",
            id="list",
        ),
        pytest.param(
            ArrayError,
            (torch.zeros(2, 3), zeros(2, 3), zeros(2, 3)),
            {},
            "arrays of numpy and torch were mixed; expected arrays of one library",
            id="mixed-libraries",
        ),
        pytest.param(
            DtypeError,
            (zeros(2, 8, 5, 64, dtype=np.int32), K, V),
            {},
            "query has dtype int32; expected float16, bfloat16, float32, float64",
            id="integers",
        ),
        pytest.param(
            DtypeError,
            (Q, K.astype(np.float16), V),
            {},
            "key has dtype float16; expected float32, the dtype of query",
            id="mixed-dtypes",
        ),
        pytest.param(
            DtypeError,
            (Q, K, V),
            {"mask": zeros(5, 7)},
            "mask has dtype float32; expected bool, True where a query may attend "
            "(a term that is added to the scores is a bias)",
            id="float-mask",
        ),
        pytest.param(
            DtypeError,
            (Q, K, V),
            {"bias": np.ones((5, 7), dtype=bool)},
            "bias has dtype bool; expected float16, bfloat16, float32, float64",
            id="boolean-bias",
        ),
        pytest.param(
            ArrayError,
            (Q, K, V),
            {"mask": True},
            "mask is a bool; expected a boolean array",
            id="mask-no-array",
        ),
        *(
            pytest.param(
                ArgumentError,
                (Q, K, V),
                {"scale": scale},
                f"scale is {scale!r}; expected a finite number, or None for 1/√head_dim",
                id=f"scale-{scale}",
            )
            for scale in (math.nan, math.inf, True, "auto")
        ),
        *(
            pytest.param(
                ArgumentError,
                (Q, K, V),
                {"softcap": softcap},
                f"softcap is {softcap!r}; expected a finite number above 0, or None for no cap",
                id=f"softcap-{softcap}",
            )
            for softcap in (0.0, -1.0, math.inf, math.nan, False)
        ),
        pytest.param(
            ArgumentError,
            (Q, K, V),
            {"causal": True},
            "causal is True; expected 'top_left', 'bottom_right', or None for no causal order",
            id="causal-true",
        ),
        pytest.param(
            ArgumentError,
            (Q, K, V),
            {"window": (-1, 0)},
            "window is (-1, 0); expected (left, right), each a whole number of keys from 0 up, "
            "or None for open",
            id="window-negative",
        ),
    ],
)
def test_what_means_nothing_is_refused(kind, arrays, options, message):
    assert message_of(kind, *arrays, **options) == message


def test_scale_may_be_any_finite_number():
    assert [resolve_scale(s, 64) for s in (0, -1.5, np.float32(0.5))] == [0.0, -1.5, 0.5]
    assert resolve_scale(torch.tensor(0.25), 64) == 0.25
