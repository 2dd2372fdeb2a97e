"""What speaks of an ONNX model's configuration: the file's metadata, and config.json beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import onnx

__all__ = ["Configuration", "configuration_of"]

_NONE = "an ONNX file holds no configuration"

_FILE = "config.json"
_MOST_BYTES = 4 << 20
# A folder of this name holds nothing but exports, and what they were made from lies above it.
_EXPORTS = "onnx"
# A configuration says of what kind of model it is; without, it may be of anything.
_KINDS = ("model_type", "architectures", "_class_name")


class Configuration(NamedTuple):
    """What declares, the nearest first, why there is none, and where one was read."""

    configs: tuple[Mapping[str, Any], ...] = ()
    unconfigured: str | None = None
    remarks: tuple[str, ...] = ()


def configuration_of(model: onnx.ModelProto, file: Path | None) -> Configuration:
    """Return what a model's metadata and the configuration beside its file declare.

    Exporters of transformers models leave ``config.json`` in the folder of the model, or above
    a folder that is called ``onnx``. What is no configuration is passed over.
    """
    written = _metadata(model)
    inner = tuple(value for value in written.values() if _is_configuration(value))
    for path in _places(file):
        beside = _read(path)
        if beside is not None:
            remark = f"the configuration of the model was read from {path}"
            return Configuration((*inner, written, beside), None, (remark,))
    return Configuration((*inner, written), None if inner else _NONE)


def _metadata(model: onnx.ModelProto) -> Mapping[str, Any]:
    """Entries of the file's own metadata, numbers and objects as what they are."""
    return {entry.key: _parsed(entry.value) for entry in model.metadata_props}


def _parsed(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _places(file: Path | None) -> Iterator[Path]:
    if file is None:
        return
    # The path as it was given: a link's target lies among other models' files.
    folder = file.absolute().parent
    yield folder / _FILE
    if folder.name == _EXPORTS:
        yield folder.parent / _FILE


def _read(path: Path) -> Mapping[str, Any] | None:
    try:
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return None
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if _is_configuration(found) else None


def _is_configuration(value: Any) -> bool:
    return isinstance(value, dict) and any(value.get(kind) for kind in _KINDS)
