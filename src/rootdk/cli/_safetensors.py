"""Whether a safetensors file holds what its header promises, found before it is loaded."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from rootdk._lib.errors import TargetError

__all__ = ["check_directory", "check_file"]

_LENGTH_BYTES = 8
_LONGEST_HEADER = 100_000_000
_BITS = {"BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64,
         "I64": 64, "F16": 16, "BF16": 16, "F32": 32, "F64": 64, "C64": 64}  # fmt: skip
_INDEX = "model.safetensors.index.json"


def check_directory(folder: Path) -> None:
    """Raise ``TargetError`` unless a folder has safetensors files, each what it says it is."""
    files = sorted(folder.glob("*.safetensors"))
    if (folder / _INDEX).is_file():
        missing = sorted(_shards(folder / _INDEX) - {file.name for file in files})
        if missing:
            raise TargetError(f"{folder} lacks {missing[0]}, which {_INDEX} names")
    if not files:
        raise TargetError(
            f"{folder} has no .safetensors file; expected one, because pickles are never loaded"
        )
    for file in files:
        check_file(file)


def _shards(index: Path) -> set[str]:
    weights = _read_json(index.read_bytes(), index).get("weight_map")
    if not isinstance(weights, dict) or not all(isinstance(f, str) for f in weights.values()):
        raise TargetError(f"{index} has no weight_map; expected the file of each weight")
    return set(weights.values())


def check_file(file: Path) -> None:
    """Raise ``TargetError`` unless a safetensors file's header and size agree."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
        room = size - _LENGTH_BYTES
        if room < 2 or length > min(room, _LONGEST_HEADER):
            raise TargetError(
                f"{file} promises a header of {length} bytes and has {max(room, 0)} left; "
                "expected a whole safetensors file"
            )
        header = _read_json(stream.read(length), file)
    header.pop("__metadata__", None)
    end = max((_end(file, name, entry) for name, entry in header.items()), default=0)
    if end != room - length:
        raise TargetError(
            f"{file} promises {end} bytes of tensors and has {room - length}; "
            "expected as many as promised"
        )


def _read_json(data: bytes, file: Path) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise TargetError(f"{file} has a header that cannot be read; expected JSON")
    return value


def _end(file: Path, name: str, entry: Any) -> int:
    """Return where a tensor ends, if it takes as many bytes as its shape and dtype need."""
    try:
        begin, end = entry["data_offsets"]
        shape, dtype = entry["shape"], entry["dtype"]
        numbers = [begin, end, *shape]
        if not all(isinstance(n, int) and n >= 0 for n in numbers) or begin > end:
            raise ValueError
    except (TypeError, ValueError, KeyError):
        raise TargetError(f"{file} describes {name} in a way that cannot be read") from None
    needed = math.prod(shape) * _BITS.get(dtype, 0) // 8
    if dtype in _BITS and needed != end - begin:
        raise TargetError(
            f"{file} gives {name} {end - begin} bytes; "
            f"expected {needed} for the shape {tuple(shape)} of {dtype}"
        )
    return int(end)
