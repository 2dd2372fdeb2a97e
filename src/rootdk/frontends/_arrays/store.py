"""Where arrays come from: a file or a mapping, one interface, nothing read before it is asked."""

from __future__ import annotations

import abc
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rootdk._lib.errors import TargetError

__all__ = ["MANY_BYTES", "Entry", "Store", "native", "text_of"]

_KINDS = "fiub"
_TEXT_KINDS = "US"


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 8 << 30


MANY_BYTES = _memory() // 2
"""The largest array that is read: half of what memory the machine has."""

LONGEST_TEXT = 64 << 20
"""Bytes of the longest text that is read."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What a store says of one array before it is read.

    ``dtype`` is a plain name; ``bfloat16`` is read as float32, which holds it exactly.
    """

    shape: tuple[int, ...]
    dtype: str
    bytes: int


class Store(abc.ABC):
    """Arrays by name. ``words`` are the texts that come with them, by name."""

    name: str
    words: Mapping[str, str]

    @abc.abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of the arrays, in the order of the store."""

    @abc.abstractmethod
    def entry(self, name: str) -> Entry:
        """What is known of an array before it is read; raises ``TargetError``."""

    @abc.abstractmethod
    def load(self, name: str) -> npt.NDArray[Any]:
        """The array itself, of numbers, truth values or text; raises ``TargetError``."""

    def read(self, name: str) -> npt.NDArray[Any]:
        """Return an array of numbers or truth values in the machine's byte order.

        Raises
        ------
        TargetError
            If it is neither, is larger than half of the memory, or is not as promised.
        """
        entry = self.entry(name)
        if entry.bytes > MANY_BYTES:
            raise TargetError(
                f"{self.name}: {name} of shape {entry.shape} takes {entry.bytes} bytes; "
                f"expected at most {MANY_BYTES}, half of the memory there is"
            )
        array = self.load(name)
        if array.dtype.kind not in _KINDS:
            raise TargetError(
                f"{self.name}: {name} has dtype {entry.dtype}; expected numbers or truth values"
            )
        return array

    def text(self, name: str) -> str | None:
        """Return a text: of the metadata, or an array of characters or of UTF-8 bytes."""
        if name in self.words:
            return self.words[name]
        if name not in self.names():
            return None
        if self.entry(name).bytes > LONGEST_TEXT:
            raise TargetError(f"{self.name}: {name} is longer than {LONGEST_TEXT} bytes of text")
        return text_of(self.load(name))


@dataclass
class Given(Store):
    """Arrays of any library, or numbers and words, in a mapping that somebody made."""

    arrays: Mapping[str, Any]
    name: str = "the mapping"
    words: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.words = {k: v for k, v in self.arrays.items() if isinstance(v, str)}

    def names(self) -> tuple[str, ...]:
        return tuple(self.arrays)

    def entry(self, name: str) -> Entry:
        value = self.arrays[name]
        shape = tuple(int(n) for n in getattr(value, "shape", ()))
        width = getattr(getattr(value, "dtype", None), "itemsize", 8)
        dtype = str(getattr(value, "dtype", type(value).__name__)).rpartition(".")[2]
        return Entry(shape=shape, dtype=dtype, bytes=math.prod(shape) * int(width))

    def load(self, name: str) -> npt.NDArray[Any]:
        from rootdk._lib.arrays import is_array, to_numpy

        value = self.arrays[name]
        if is_array(value):
            return to_numpy(value)
        if isinstance(value, bool | int | float | str | bytes):
            return np.asarray(value)
        if isinstance(value, list | tuple) and all(isinstance(v, int | float) for v in value):
            return np.asarray(value)
        raise TargetError(
            f"{self.name}: {name} is a {type(value).__name__}; expected an array, a number or text"
        )


def native(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array in the machine's own byte order."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def text_of(array: npt.NDArray[Any]) -> str | None:
    """Return what an array of one string, or of UTF-8 bytes, says; None if it is neither."""
    if array.dtype.kind in _TEXT_KINDS and array.size == 1:
        value = array.reshape(-1)[0]
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    if array.dtype == np.uint8 and array.ndim == 1:
        try:
            return array.tobytes().decode("utf-8")
        except UnicodeDecodeError:
            return None
    return None
