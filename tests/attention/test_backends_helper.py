"""The tests' own helper: it must be able to fail."""

import numpy as np
import pytest
from attention_backends import BACKENDS, assert_close, with_every_dtype

from rootdk._lib.arrays import dtype_name, to_numpy


@with_every_dtype
def test_a_backend_makes_the_values_and_dtype_asked_for(backend, dtype):
    array = backend.array([0.5, -2.0], dtype)
    assert dtype_name(array) == dtype
    assert to_numpy(array).tolist() == [0.5, -2.0]


def test_the_read_only_backend_refuses_writes():
    (read_only,) = (b for b in BACKENDS if b.name == "numpy-read-only")
    with pytest.raises(ValueError, match="read-only"):
        read_only.array([1.0])[0] = 2.0


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        pytest.param([1.0], [1.1], id="value"),
        pytest.param([1.0], [[1.0]], id="shape"),
        pytest.param([np.nan], [0.0], id="nan"),
        pytest.param([np.inf], [1e308], id="infinity"),
    ],
)
def test_assert_close_fails_on_a_difference(actual, expected):
    with pytest.raises(AssertionError):
        assert_close(np.asarray(actual), expected, tolerance=0.01)
