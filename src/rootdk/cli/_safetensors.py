"""Whether a directory's safetensors files hold what they promise, found before they are loaded."""

from __future__ import annotations

from pathlib import Path

from rootdk._lib.errors import TargetError
from rootdk._lib.safetensors import check_file, read_json

__all__ = ["check_directory"]

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
    weights = read_json(index.read_bytes(), index).get("weight_map")
    if not isinstance(weights, dict) or not all(isinstance(f, str) for f in weights.values()):
        raise TargetError(f"{index} has no weight_map; expected the file of each weight")
    return set(weights.values())
