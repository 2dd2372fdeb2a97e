"""The header of a safetensors file, read by hand and compared with the file's size.

A file from a stranger is data: nothing is allocated, and nothing of the tensors read,
before header and size agree.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rootdk._lib.errors import TargetError

__all__ = ["BITS", "Header", "TensorEntry", "check_file", "read_header", "read_json"]

_LENGTH_BYTES = 8
_LONGEST_HEADER = 100_000_000
BITS = {"BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64,
        "I64": 64, "F16": 16, "BF16": 16, "F32": 32, "F64": 64, "C64": 64}  # fmt: skip
"""Bits per entry of the dtypes whose sizes are compared."""

_METADATA = "__metadata__"


@dataclass(frozen=True, kw_only=True)
class TensorEntry:
    """One tensor of a file: its dtype as the format names it, its shape, and where it lies.

    ``begin`` and ``end`` count bytes from the start of the file.
    """

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a safetensors file says that it holds."""

    tensors: Mapping[str, TensorEntry] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)


def check_file(file: Path) -> None:
    """Raise ``TargetError`` unless a safetensors file's header and size agree."""
    read_header(file)


def read_header(file: Path) -> Header:
    """Return the header of a safetensors file.

    Raises
    ------
    TargetError
        If it cannot be read, is longer than the file, describes a tensor in a way that means
        nothing, or promises more or fewer bytes than the file has.
    """
    size = file.stat().st_size
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
        room = size - _LENGTH_BYTES
        if room < 2 or length > min(room, _LONGEST_HEADER):
            raise TargetError(
                f"{file} promises a header of {length} bytes and has {max(room, 0)} left; "
                "expected a whole safetensors file"
            )
        header = read_json(stream.read(length), file)
    metadata = _metadata(header.pop(_METADATA, None), file)
    start = _LENGTH_BYTES + length
    tensors = {name: _entry(file, name, entry, start) for name, entry in header.items()}
    end = max((entry.end for entry in tensors.values()), default=start) - start
    if end != room - length:
        raise TargetError(
            f"{file} promises {end} bytes of tensors and has {room - length}; "
            "expected as many as promised"
        )
    _refuse_overlaps(file, tensors, start)
    return Header(tensors=tensors, metadata=metadata)


def read_json(data: bytes, file: Path) -> dict[str, Any]:
    """Return the object that some JSON of a file is.

    Raises
    ------
    TargetError
        If it is not JSON, or not an object.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise TargetError(f"{file} has a header that cannot be read; expected JSON")
    return value


def _metadata(value: Any, file: Path) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise TargetError(f"{file} has metadata that cannot be read; expected text by name")
    return value


def _entry(file: Path, name: str, entry: Any, start: int) -> TensorEntry:
    """Return where a tensor lies, if it takes as many bytes as its shape and dtype need."""
    try:
        begin, end = entry["data_offsets"]
        shape, dtype = entry["shape"], entry["dtype"]
        numbers = [begin, end, *shape]
        if not all(isinstance(n, int) and n >= 0 for n in numbers) or begin > end:
            raise ValueError
        if not isinstance(dtype, str) or len(shape) > _MOST_DIMENSIONS:
            raise ValueError
    except (TypeError, ValueError, KeyError):
        raise TargetError(f"{file} describes {name} in a way that cannot be read") from None
    needed = math.prod(shape) * BITS.get(dtype, 0) // 8
    if dtype in BITS and needed != end - begin:
        raise TargetError(
            f"{file} gives {name} {end - begin} bytes; "
            f"expected {needed} for the shape {tuple(shape)} of {dtype}"
        )
    return TensorEntry(dtype=dtype, shape=tuple(shape), begin=start + begin, end=start + end)


def _refuse_overlaps(file: Path, tensors: Mapping[str, TensorEntry], start: int) -> None:
    """The format has neither gaps nor overlaps; either hides bytes, or counts some twice."""
    reached = start
    for name, entry in sorted(tensors.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != reached:
            raise TargetError(
                f"{file} begins {name} at byte {entry.begin - start} of its tensors; "
                f"expected {reached - start}, where the one before it ends"
            )
        reached = entry.end


_MOST_DIMENSIONS = 64
"""As many as an array of NumPy can have."""
