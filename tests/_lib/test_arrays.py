import warnings

import array_api_compat
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch
from attention_backends import BACKENDS, JAX, NUMPY, TORCH, on_every_backend, with_every_dtype

from rootdk._lib import arrays
from rootdk._lib.errors import ArrayError, DtypeError

NO_ARRAYS = [None, 1.0, [1.0], "float32", np.float64]


@on_every_backend
def test_arrays_are_recognised_with_their_library(backend):
    array = backend.array([1.0])
    assert arrays.is_array(array)
    assert arrays.is_torch(array) is (backend is TORCH)
    assert arrays.is_jax(array) is (backend is JAX)


@pytest.mark.parametrize("value", NO_ARRAYS, ids=repr)
def test_what_is_no_array_is_not_taken_for_one(value):
    assert not arrays.is_array(value)
    assert not arrays.is_torch(value)
    assert not arrays.is_jax(value)


@on_every_backend
def test_the_namespace_builds_arrays_of_the_same_library(backend):
    array = backend.array([1.0])
    xp = arrays.namespace(None, array, array, None)
    assert type(xp.ones(3, device=arrays.device(array))) is type(array)


def test_the_namespace_of_nothing_of_others_and_of_two():
    with pytest.raises(ArrayError) as caught:
        arrays.namespace(None)
    assert str(caught.value) == "no array was given; expected at least one"
    with pytest.raises(ArrayError) as caught:
        arrays.namespace(np.zeros(1), [0.0])
    assert str(caught.value) == (
        "got a list; expected an array of NumPy, torch, JAX or another array API library"
    )
    with pytest.raises(ArrayError) as caught:
        arrays.namespace(np.zeros(1), torch.zeros(1))
    assert str(caught.value) == (
        "arrays of numpy and torch were mixed; expected arrays of one library"
    )


@on_every_backend
def test_the_device_is_the_librarys_own(backend):
    array = backend.array([1.0])
    assert arrays.device(array) == array_api_compat.device(array)


@with_every_dtype
def test_dtypes_have_one_plain_name(backend, dtype):
    array = backend.array([1.0], dtype)
    assert arrays.dtype_name(array) == dtype
    assert arrays.dtype_name(array.dtype) == dtype
    assert arrays.is_half(array) is (dtype in ("float16", "bfloat16"))


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (np.float32, "float32"),
        (np.dtype("int64"), "int64"),
        (jnp.bfloat16, "bfloat16"),
        (ml_dtypes.bfloat16, "bfloat16"),
        (torch.bool, "bool"),
        (float, "float64"),
        ("float16", "float16"),
        ("torch.bfloat16", "bfloat16"),
        (torch.float8_e5m2, "float8_e5m2"),
    ],
    ids=str,
)
def test_dtypes_of_any_spelling_have_one_plain_name(dtype, name):
    assert arrays.dtype_name(dtype) == name


@on_every_backend
def test_booleans_are_told_from_numbers(backend):
    assert arrays.is_bool(backend.array(np.asarray([True])))
    assert not arrays.is_bool(backend.array([1.0]))


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_float_info_agrees_with_torch_and_ml_dtypes(name):
    info = arrays.float_info(name)
    theirs = torch.finfo(getattr(torch, name))
    assert (info.name, info.bits) == (name, theirs.bits)
    assert (info.eps, info.max, info.smallest_normal) == (
        theirs.eps,
        theirs.max,
        theirs.smallest_normal,
    )
    limits = ml_dtypes.finfo(ml_dtypes.bfloat16 if name == "bfloat16" else name)
    assert (info.eps, info.max) == (float(limits.eps), float(limits.max))


@pytest.mark.parametrize("dtype", ["int64", "float8_e5m2", "complex64"])
def test_other_dtypes_have_no_float_info(dtype):
    with pytest.raises(DtypeError) as caught:
        arrays.float_info(dtype)
    assert str(caught.value) == f"dtype is {dtype}; expected float16, bfloat16, float32, float64"


@with_every_dtype
def test_half_types_are_computed_in_float32_and_others_in_themselves(backend, dtype):
    array = backend.array([1.0], dtype)
    xp = arrays.namespace(array)
    computed = xp.astype(array, arrays.compute_dtype(array))
    expected = "float32" if dtype in ("float16", "bfloat16") else dtype
    assert arrays.dtype_name(computed) == expected


@with_every_dtype
def test_to_numpy_holds_every_value_exactly(backend, dtype):
    values = arrays.to_numpy(backend.array([[0.5, -3.0], [np.inf, 0.0]], dtype))
    assert type(values) is np.ndarray
    assert values.dtype == ("float32" if dtype == "bfloat16" else dtype)
    assert values.tolist() == [[0.5, -3.0], [np.inf, 0.0]]


@on_every_backend
def test_to_numpy_keeps_integers_and_booleans(backend):
    assert arrays.to_numpy(backend.array(np.asarray([1, 2]))).tolist() == [1, 2]
    assert arrays.to_numpy(backend.array(np.asarray([True]))).dtype == bool


def test_to_numpy_stays_outside_the_gradient():
    leaf = torch.ones(2, requires_grad=True)
    assert arrays.to_numpy(leaf * 2).tolist() == [2.0, 2.0]
    assert leaf.grad is None
    conjugate = torch.tensor([1 + 2j]).conj()
    assert arrays.to_numpy(conjugate).tolist() == [1 - 2j]


def test_tracers_are_arrays_of_jax():
    seen = []

    def function(x):
        seen.append((arrays.is_jax(x), arrays.dtype_name(x), arrays.float_info(x).bits))
        return x

    jax.jit(function)(jnp.ones(2))
    assert seen == [(True, "float32", 32)]


def test_named_arguments_must_be_float_arrays():
    assert arrays.require_float("query", np.zeros(1)) == arrays.float_info("float64")
    with pytest.raises(ArrayError) as caught:
        arrays.require_float("query", None)
    assert str(caught.value) == (
        "query is a NoneType; expected an array of NumPy, torch, JAX or another array API library"
    )
    with pytest.raises(DtypeError) as caught:
        arrays.require_float("query", torch.zeros(1, dtype=torch.int8))
    assert str(caught.value) == (
        "query has dtype int8; expected float16, bfloat16, float32, float64"
    )


def test_quiet_ends_with_its_context():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with arrays.quiet():
            assert np.log(np.asarray(0.0)) == -np.inf
        with pytest.raises(RuntimeWarning):
            np.log(np.asarray(0.0))


def test_the_backends_cover_every_float_dtype():
    assert {dtype for backend in BACKENDS for dtype in backend.dtypes} == set(NUMPY.dtypes)
