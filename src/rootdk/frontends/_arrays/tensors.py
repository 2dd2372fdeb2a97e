"""A safetensors file: the header checked by hand, each tensor read when it is asked for."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rootdk._lib.errors import TargetError
from rootdk._lib.safetensors import read_header
from rootdk.frontends._arrays.store import Entry, Store, native

__all__ = ["SafetensorsStore"]

_NAMES = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16",
          "U32": "uint32", "I32": "int32", "U64": "uint64", "I64": "int64", "F16": "float16",
          "BF16": "bfloat16", "F32": "float32", "F64": "float64"}  # fmt: skip


class SafetensorsStore(Store):
    """The tensors of a safetensors file, and its metadata as words."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        header = read_header(path)
        self._tensors = header.tensors
        self.words = header.metadata

    def names(self) -> tuple[str, ...]:
        """The names of the tensors, in the order of the header."""
        return tuple(self._tensors)

    def entry(self, name: str) -> Entry:
        """What the header says; its sizes have been compared with the file's."""
        tensor = self._tensors[name]
        if tensor.dtype not in _NAMES:
            raise TargetError(
                f"{self.name}: {name} has dtype {tensor.dtype}; expected {', '.join(_NAMES)}"
            )
        width = 4 if tensor.dtype == "BF16" else np.dtype(_NAMES[tensor.dtype]).itemsize
        return Entry(
            shape=tensor.shape,
            dtype=_NAMES[tensor.dtype],
            bytes=math.prod(tensor.shape) * width,
        )

    def load(self, name: str) -> npt.NDArray[Any]:
        """The tensor; bfloat16 becomes float32, which holds it exactly."""
        tensor, entry = self._tensors[name], self.entry(name)
        stored = np.dtype("uint16" if entry.dtype == "bfloat16" else entry.dtype).newbyteorder("<")
        with self._path.open("rb") as stream:
            stream.seek(tensor.begin)
            data = np.fromfile(stream, stored, math.prod(tensor.shape))
        if data.size != math.prod(tensor.shape):
            raise TargetError(f"{self.name}: {name} ends before its last number")
        array = native(data).reshape(tensor.shape)
        return _widened(array) if entry.dtype == "bfloat16" else array


def _widened(bits: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return the float32 numbers whose upper halves are these bits."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
