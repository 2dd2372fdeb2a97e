"""What a file of this folder defines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from rootdk._lib.arrays import to_numpy

__all__ = ["Call", "Library"]

Call = Callable[[Sequence[Any]], Any]
"""From query, key and value of a library to the output."""


class Library(ABC):
    """Makes a library's arrays out of NumPy's, and NumPy's out of a library's.

    Attributes
    ----------
    name : str
        The module to import.
    order : int
        When it is tried: NumPy is 0.
    dtypes : tuple of str
        The floating dtypes that it computes in natively on a CPU, in the order of their width.
    make, take, cast : str
        The same as expressions for a script, over ``array`` and ``result``; ``cast`` goes on
        after ``make`` for another ``{dtype}``.
    imports : tuple of str
        The lines that those need.
    """

    name: ClassVar[str]
    order: ClassVar[int]
    dtypes: ClassVar[tuple[str, ...]]
    imports: ClassVar[tuple[str, ...]] = ()
    make: ClassVar[str]
    take: ClassVar[str]
    cast: ClassVar[str] = ".astype(np.{dtype})"
    gradients_exist: ClassVar[bool] = False

    @abstractmethod
    def is_loaded(self) -> bool:
        """Whether the library has been imported by anyone."""

    @abstractmethod
    def is_installed(self) -> bool:
        """Whether it can be imported; it is not imported to see."""

    @abstractmethod
    def owns(self, value: object) -> bool:
        """Whether a value is an array of this library."""

    @abstractmethod
    def array(
        self, values: npt.NDArray[Any], *, dtype: str | None = None, device: str | None = None
    ) -> Any:
        """Return the library's array of some values, floats in ``dtype``."""

    def to_numpy(self, array: Any) -> npt.NDArray[Any]:
        """Return the values as NumPy's, halves as float32."""
        return to_numpy(array)

    def rounded(self, values: npt.NDArray[Any], dtype: str) -> npt.NDArray[np.float64]:
        """Return what is left of float64 values in a dtype."""
        kept = self.to_numpy(self.array(values, dtype=dtype))
        return kept.astype(np.float64)

    def gradients(
        self, call: Call, operands: Sequence[Any], cotangent: npt.NDArray[Any]
    ) -> list[npt.NDArray[Any]]:
        """Return d⟨call(operands), cotangent⟩/d(operand), one an operand."""
        raise NotImplementedError(f"{self.name} has no gradients")

    def strided(self, array: Any) -> Any | None:
        """Return an equal array whose last axis is not contiguous, None where there is none."""
        del array
        return None
