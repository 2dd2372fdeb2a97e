"""Arrays of any library: which one, how precise, and how to look at one with NumPy.

No function here imports a framework: an array can only be a framework's own if the
framework is loaded already.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import array_api_compat
import numpy as np
import numpy.typing as npt

from rootdk._lib.errors import ArrayError, DtypeError

Array: TypeAlias = Any
"""An array of any library that array-api-compat knows."""

Namespace: TypeAlias = Any
"""The array API namespace of such a library, usually called ``xp``."""

Dtype: TypeAlias = Any
"""A dtype object of such a library."""


@dataclass(frozen=True, kw_only=True)
class FloatInfo:
    """The limits of a floating dtype, as Python numbers.

    Attributes
    ----------
    name : str
        ``"float16"``, ``"bfloat16"``, ``"float32"`` or ``"float64"``.
    bits : int
        Bits per number.
    eps : float
        Distance from 1 to the next larger number.
    max : float
        Largest finite number; the smallest is its negative.
    smallest_normal : float
        Smallest positive number of full precision.
    """

    name: str
    bits: int
    eps: float
    max: float
    smallest_normal: float


_FLOAT_INFO = {
    info.name: info
    for info in (
        FloatInfo(name="float16", bits=16, eps=2.0**-10, max=65504.0, smallest_normal=2.0**-14),
        FloatInfo(
            name="bfloat16",
            bits=16,
            eps=2.0**-7,
            max=(2.0 - 2.0**-7) * 2.0**127,
            smallest_normal=2.0**-126,
        ),
        FloatInfo(
            name="float32",
            bits=32,
            eps=2.0**-23,
            max=(2.0 - 2.0**-23) * 2.0**127,
            smallest_normal=2.0**-126,
        ),
        FloatInfo(
            name="float64",
            bits=64,
            eps=sys.float_info.epsilon,
            max=sys.float_info.max,
            smallest_normal=sys.float_info.min,
        ),
    )
}

_EXPECTED_ARRAY = "expected an array of NumPy, torch, JAX or another array API library"


def is_array(value: object) -> bool:
    """Tell whether a value is an array of a library that array-api-compat knows.

    NumPy scalars are arrays in this sense; Python numbers and lists are not.

    Examples
    --------
    >>> import numpy as np
    >>> is_array(np.zeros(3)), is_array([0.0, 0.0]), is_array(0.0)
    (True, False, False)
    """
    # array-api-compat takes the class of an array for an array.
    return not isinstance(value, type) and bool(array_api_compat.is_array_api_obj(value))


def is_torch(value: object) -> bool:
    """Tell whether a value is a torch tensor, without importing torch.

    Examples
    --------
    >>> import numpy as np
    >>> is_torch(np.zeros(3))
    False
    """
    return bool(array_api_compat.is_torch_array(value))


def is_jax(value: object) -> bool:
    """Tell whether a value is a JAX array (or tracer), without importing JAX.

    Examples
    --------
    >>> import numpy as np
    >>> is_jax(np.zeros(3))
    False
    """
    return bool(array_api_compat.is_jax_array(value))


def namespace(*arrays: Array | None) -> Namespace:
    """Return the one array API namespace that all the given arrays belong to.

    ``None`` stands for an absent argument and is passed over.

    Raises
    ------
    ArrayError
        If an argument is not an array, no array is given, or two libraries are mixed.

    Examples
    --------
    >>> import numpy as np
    >>> xp = namespace(np.zeros(3), None)
    >>> float(xp.sum(xp.ones(3)))
    3.0
    """
    present = [array for array in arrays if array is not None]
    for array in present:
        if not is_array(array):
            kind = f"{type(array).__module__}.{type(array).__qualname__}"
            raise ArrayError(f"got a {kind.removeprefix('builtins.')}; {_EXPECTED_ARRAY}")
    if not present:
        raise ArrayError("no array was given; expected at least one")
    try:
        return array_api_compat.array_namespace(*present)
    except TypeError as error:
        libraries = sorted({type(array).__module__.partition(".")[0] for array in present})
        raise ArrayError(
            f"arrays of {' and '.join(libraries)} were mixed; expected arrays of one library"
        ) from error


def device(array: Array) -> Any:
    """Return the array's device, as its library names it, fit for ``xp.arange(device=)``.

    Examples
    --------
    >>> import numpy as np
    >>> device(np.zeros(3))
    'cpu'
    """
    return array_api_compat.device(array)


def dtype_name(array_or_dtype: Any) -> str:
    """Return the dtype's plain name, the same for every library.

    Parameters
    ----------
    array_or_dtype : array or dtype
        An array, or a dtype as its library writes it (``torch.bfloat16``,
        ``jax.numpy.float32``, ``numpy.dtype("float16")``, ``"float64"``).

    Returns
    -------
    str
        ``"float16"``, ``"bfloat16"``, ``"float32"``, ``"float64"``, or the plain name of
        another dtype: ``"int64"``, ``"bool"``.

    Examples
    --------
    >>> import numpy as np
    >>> dtype_name(np.zeros(3, dtype=np.float16)), dtype_name(np.float64)
    ('float16', 'float64')
    """
    dtype = array_or_dtype
    if not isinstance(dtype, (str, type)):
        dtype = getattr(dtype, "dtype", dtype)
    if isinstance(dtype, np.dtype):
        return _numpy_name(dtype)
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None)
    if name is None and isinstance(dtype, type):
        name = np.dtype(dtype).name
    return str(name if name is not None else dtype).rpartition(".")[2]


@lru_cache(maxsize=64)
def _numpy_name(dtype: np.dtype[Any]) -> str:
    """Return the name of a dtype of NumPy's, which puts it together each time it is asked."""
    return str(dtype.name)


def float_info(array_or_dtype: Any) -> FloatInfo:
    """Return the limits of a floating dtype.

    Parameters
    ----------
    array_or_dtype : array or dtype
        As for :func:`dtype_name`.

    Raises
    ------
    DtypeError
        If the dtype is not one of float16, bfloat16, float32 and float64.

    Examples
    --------
    >>> float_info("float16").max
    65504.0
    >>> float_info("bfloat16").eps
    0.0078125
    """
    name = dtype_name(array_or_dtype)
    if name not in _FLOAT_INFO:
        raise DtypeError(f"dtype is {name}; expected {', '.join(_FLOAT_INFO)}")
    return _FLOAT_INFO[name]


def require_float(argument: str, array: Array) -> FloatInfo:
    """Return the limits of a named argument's dtype; refuse what is not a float array.

    Raises
    ------
    ArrayError
        If the argument is not an array.
    DtypeError
        If its dtype is not one of float16, bfloat16, float32 and float64.

    Examples
    --------
    >>> import numpy as np
    >>> require_float("query", np.zeros(3, dtype=bool))
    Traceback (most recent call last):
        ...
    rootdk._lib.errors.DtypeError: query has dtype bool; expected float16, bfloat16, float32, ...
    """
    if not is_array(array):
        kind = f"{type(array).__module__}.{type(array).__qualname__}".removeprefix("builtins.")
        raise ArrayError(f"{argument} is a {kind}; {_EXPECTED_ARRAY}")
    if dtype_name(array) not in _FLOAT_INFO:
        raise DtypeError(
            f"{argument} has dtype {dtype_name(array)}; expected {', '.join(_FLOAT_INFO)}"
        )
    return float_info(array)


def is_half(array_or_dtype: Any) -> bool:
    """Tell whether a dtype is float16 or bfloat16.

    Examples
    --------
    >>> is_half("bfloat16"), is_half("float32"), is_half("int16")
    (True, False, False)
    """
    return dtype_name(array_or_dtype) in {"float16", "bfloat16"}


def is_bool(array_or_dtype: Any) -> bool:
    """Tell whether a dtype is boolean.

    Examples
    --------
    >>> import numpy as np
    >>> is_bool(np.asarray([True])), is_bool(np.asarray([1]))
    (True, False)
    """
    return dtype_name(array_or_dtype) == "bool"


def compute_dtype(array: Array) -> Dtype:
    """Return the dtype to compute in: float32 for half types, otherwise the array's own.

    Raises
    ------
    DtypeError
        If the array's dtype is not one of float16, bfloat16, float32 and float64.

    Examples
    --------
    >>> import numpy as np
    >>> dtype_name(compute_dtype(np.zeros(3, dtype=np.float16)))
    'float32'
    """
    return namespace(array).float32 if float_info(array).bits == 16 else array.dtype


def to_numpy(array: Array) -> npt.NDArray[Any]:
    """Return the values as a NumPy array on the host, outside any gradient.

    bfloat16 comes back as float32, which holds each of its values exactly, because
    NumPy has no bfloat16 of its own. The result may share memory with the array, and
    may be read-only: copy it before writing to it.

    Examples
    --------
    >>> import numpy as np
    >>> to_numpy(np.asarray([1.0, 2.0]))
    array([1., 2.])
    """
    if is_torch(array):
        array = array.detach().cpu()
        array = array.float() if dtype_name(array) == "bfloat16" else array
        return np.asarray(array.numpy(force=True))
    values = np.asarray(array)
    return values.astype(np.float32) if dtype_name(values) == "bfloat16" else values


def quiet() -> AbstractContextManager[object]:
    """Return a context in which NumPy's floating-point arithmetic warns of nothing.

    Infinities and NaNs are values here, and are measured. The setting belongs to the
    current thread and ends with the context; no other library needs it.

    Examples
    --------
    >>> import numpy as np
    >>> with quiet():
    ...     float(np.log(np.asarray(0.0)))
    -inf
    """
    return np.errstate(all="ignore")
