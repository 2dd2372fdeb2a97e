"""NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rootdk.identify.libraries._base import Library


class _NumPy(Library):
    name = "numpy"
    order = 0
    dtypes = ("float32", "float64")
    make = "array"
    take = "np.asarray(result)"

    def is_loaded(self) -> bool:
        return True

    def is_installed(self) -> bool:
        return True

    def owns(self, value: object) -> bool:
        return isinstance(value, np.ndarray | np.generic)

    def array(
        self, values: npt.NDArray[Any], *, dtype: str | None = None, device: str | None = None
    ) -> Any:
        del device
        if dtype is not None and values.dtype.kind == "f":
            return values.astype(dtype)
        return np.array(values)

    def strided(self, array: Any) -> Any | None:
        wide = np.empty((*array.shape[:-1], 2 * array.shape[-1]), dtype=array.dtype)
        wide[..., ::2] = array
        return wide[..., ::2]


NUMPY = _NumPy()
