"""JAX."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from rootdk._lib.arrays import is_jax
from rootdk._lib.extras import is_loaded, require
from rootdk.identify.libraries._base import Call, Library


class _Jax(Library):
    name = "jax"
    order = 2
    dtypes = ("float16", "bfloat16", "float32")
    imports = ("import jax.numpy as jnp",)
    make = "jnp.asarray(array)"
    take = "np.asarray(result, dtype=np.float32)"
    cast = ".astype(jnp.{dtype})"
    gradients_exist = True

    def is_loaded(self) -> bool:
        return is_loaded("jax")

    def is_installed(self) -> bool:
        return importlib.util.find_spec("jax") is not None

    def owns(self, value: object) -> bool:
        return is_jax(value)

    def array(
        self, values: npt.NDArray[Any], *, dtype: str | None = None, device: str | None = None
    ) -> Any:
        del device
        jnp = require("jax.numpy", extra="jax", purpose="to call a JAX function")
        if dtype is None or values.dtype.kind != "f":
            return jnp.asarray(values)
        # NumPy rounds to what it knows; JAX's own bfloat16 it does through float32.
        narrow = values.astype("float32" if dtype == "bfloat16" else dtype)
        return jnp.asarray(narrow, dtype=dtype)

    def gradients(
        self, call: Call, operands: Sequence[Any], cotangent: npt.NDArray[Any]
    ) -> list[npt.NDArray[Any]]:
        jax = require("jax", extra="jax", purpose="to take gradients")
        output, pull = jax.vjp(lambda *given: call(given), *operands)
        found = pull(jax.numpy.asarray(cotangent, dtype=output.dtype))
        return [self.to_numpy(one) for one in found]


JAX = _Jax()
