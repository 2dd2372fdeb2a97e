"""Every array library that the reference must run on, hostile ones included."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import array_api_strict
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch

from rootdk._lib.arrays import float_info, to_numpy


@dataclass(frozen=True)
class Backend:
    """How one library makes an array, and the float dtypes it can hold, widest first."""

    name: str
    make: Callable[[np.ndarray, str], Any]
    dtypes: tuple[str, ...]

    def array(self, values: Any, dtype: str | None = None) -> Any:
        """An array of the library; floats in its widest dtype unless told otherwise."""
        values = np.asarray(values)
        if values.dtype.kind == "f":
            return self.make(values, dtype or self.dtypes[0])
        return self.make(values, dtype or values.dtype.name)

    @property
    def eps(self) -> float:
        return float_info(self.dtypes[0]).eps

    def __str__(self) -> str:
        return self.name


def _numpy(values: np.ndarray, dtype: str) -> np.ndarray:
    return values.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def _read_only(values: np.ndarray, dtype: str) -> np.ndarray:
    array = _numpy(values, dtype)
    array.flags.writeable = False
    return array


def _torch(values: np.ndarray, dtype: str) -> torch.Tensor:
    return torch.tensor(values).to(getattr(torch, dtype))


def _jax(values: np.ndarray, dtype: str) -> Any:
    return jnp.asarray(values.astype(np.int32) if dtype == "int64" else _numpy(values, dtype))


def _strict(values: np.ndarray, dtype: str) -> Any:
    return array_api_strict.asarray(values.astype(dtype))


NUMPY = Backend("numpy", _numpy, ("float64", "float32", "float16", "bfloat16"))
READ_ONLY = Backend("numpy-read-only", _read_only, NUMPY.dtypes)
TORCH = Backend("torch", _torch, NUMPY.dtypes)
JAX = Backend("jax", _jax, ("float32", "float16", "bfloat16"))
STRICT = Backend("array-api-strict", _strict, ("float64", "float32"))

BACKENDS = (NUMPY, READ_ONLY, TORCH, JAX, STRICT)

on_every_backend = pytest.mark.parametrize("backend", BACKENDS, ids=str)
with_every_dtype = pytest.mark.parametrize(
    ("backend", "dtype"),
    [
        pytest.param(backend, dtype, id=f"{backend}-{dtype}")
        for backend in BACKENDS
        for dtype in backend.dtypes
    ],
)


def assert_close(actual: Any, expected: Any, *, tolerance: float) -> None:
    """Assert equality of shape, of NaN and infinity, and of the rest to a tolerance.

    The tolerance is relative for values above 1 and absolute for those below: weights and
    unit-sized values are what most tests hold.
    """
    actual = to_numpy(actual) if not np.isscalar(actual) else np.asarray(actual)
    expected = to_numpy(expected) if not isinstance(expected, (list, float, int)) else expected
    expected = np.asarray(expected)
    assert actual.shape == expected.shape, f"{actual.shape} is not {expected.shape}"
    np.testing.assert_allclose(
        actual.astype(np.float64),
        expected.astype(np.float64),
        rtol=tolerance,
        atol=tolerance,
    )
