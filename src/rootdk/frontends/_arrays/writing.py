"""Write measured calls to a file as they come: one call's arrays in memory, never more."""

from __future__ import annotations

import json
import os
import shutil
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rootdk._lib.arrays import dtype_name, is_torch, to_numpy
from rootdk._lib.errors import ArgumentError
from rootdk.frontends._arrays.document import Document, encode
from rootdk.frontends._arrays.naming import DOCUMENT
from rootdk.frontends._tap import Measured
from rootdk.stats import Summary

__all__ = ["SUFFIXES", "Spool"]

_PIECE = 1 << 20
_SAFETENSORS = {"bool": "BOOL", "int64": "I64", "float16": "F16", "float32": "F32",
                "float64": "F64"}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Spooled:
    """One array in the spool: where it lies, and what it was."""

    file: Path
    shape: tuple[int, ...]
    dtype: str
    half: bool


class Spool:
    """Takes measured calls one by one into a folder beside the target, then writes the file.

    The names of sites are known only after the pass, when it is clear how often each ran; so
    the arrays wait under numbers.
    """

    def __init__(self, path: Path) -> None:
        if path.suffix.lower() not in SUFFIXES:
            raise ArgumentError.unexpected("path", str(path), f"a name in {' or '.join(SUFFIXES)}")
        if not path.parent.is_dir():
            raise ArgumentError(f"path is {str(path)!r}; expected a folder that exists")
        self._path = path
        self._folder = Path(tempfile.mkdtemp(prefix=".rootdk-", dir=path.parent))
        self._calls: list[tuple[Summary, dict[str, _Spooled], dict[str, str]]] = []

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def take(self, measured: Measured) -> None:
        """Write the arrays of one call into the spool."""
        arrays: dict[str, _Spooled] = {}
        kept = measured.kept
        for field in ("query", "key", "value", "mask", "bias", "inputs"):
            array = getattr(measured, field)
            if array is not None:
                arrays[field] = self._spooled(array)
        if kept is not None:
            arrays[kept.kind] = self._spooled(kept.array)
            arrays["rows"] = self._spooled(np.asarray(kept.rows, dtype=np.int64))
        arrays["scale"] = self._spooled(np.asarray(measured.scale))
        if measured.softcap is not None:
            arrays["softcap"] = self._spooled(np.asarray(measured.softcap))
        words = {"score_dtype": measured.score_dtype}
        if measured.causal is not None:
            words["causal"] = str(measured.causal)
        self._calls.append((measured.summary, arrays, words))

    def lacks(self, summaries: Mapping[str, Summary]) -> list[str]:
        """Return the sites that were measured, but not by one call: in parts, each with its own."""
        known = {id(summary) for summary, _, _ in self._calls}
        return [name for name, summary in summaries.items() if id(summary) not in known]

    def write(self, document: Document, summaries: Mapping[str, Summary]) -> None:
        """Write the file: the calls whose summaries were kept, each under its site's name."""
        names = {id(summary): name for name, summary in summaries.items()}
        arrays: dict[str, _Spooled] = {}
        words: dict[str, str] = {DOCUMENT: encode(document)}
        for summary, fields, said in self._calls:
            site = names.get(id(summary))
            if site is not None:
                arrays.update({f"{site}.{field}": array for field, array in fields.items()})
                words.update({f"{site}.{field}": word for field, word in said.items()})
        target = self._folder / "whole"
        _WRITERS[self._path.suffix.lower()](target, arrays, words)
        os.replace(target, self._path)

    def _spooled(self, array: Any) -> _Spooled:
        values = np.asarray(_compact(to_numpy(array)), order="C")
        file = self._folder / str(len(os.listdir(self._folder)))
        values.tofile(file)
        half = is_torch(array) and dtype_name(array) == "bfloat16"
        return _Spooled(file=file, shape=values.shape, dtype=values.dtype.name, half=half)


def _compact(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array without the repetitions that broadcasting made: they come back on reading."""
    if array.ndim < 4 or array.dtype != bool:
        return array
    for axis, stride in enumerate(array.strides):
        if stride == 0:
            array = np.take(array, [0], axis=axis)
    return array


def _npz(target: Path, arrays: Mapping[str, _Spooled], words: Mapping[str, str]) -> None:
    with zipfile.ZipFile(target, "w", allowZip64=True) as file:
        for name, array in arrays.items():
            method = zipfile.ZIP_DEFLATED if array.dtype == "bool" else zipfile.ZIP_STORED
            member = zipfile.ZipInfo(f"{name}.npy")
            member.compress_type = method
            with file.open(member, "w", force_zip64=True) as stream:
                header = {
                    "descr": np.lib.format.dtype_to_descr(np.dtype(array.dtype)),
                    "fortran_order": False,
                    "shape": array.shape,
                }
                np.lib.format.write_array_header_1_0(stream, header)
                for piece in _pieces(array.file):
                    stream.write(piece)
        for name, word in words.items():
            with file.open(zipfile.ZipInfo(f"{name}.npy"), "w") as stream:
                text = np.frombuffer(word.encode("utf-8"), dtype=np.uint8)
                np.lib.format.write_array(stream, text, allow_pickle=False)


def _safetensors(target: Path, arrays: Mapping[str, _Spooled], words: Mapping[str, str]) -> None:
    header: dict[str, Any] = {"__metadata__": dict(words)}
    at = 0
    for name, array in arrays.items():
        size = array.file.stat().st_size // (2 if array.half else 1)
        header[name] = {
            "dtype": "BF16" if array.half else _SAFETENSORS[array.dtype],
            "shape": array.shape,
            "data_offsets": [at, at + size],
        }
        at += size
    text = json.dumps(header, ensure_ascii=False).encode("utf-8")
    text += b" " * (-len(text) % 8)
    with target.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        for array in arrays.values():
            for piece in _pieces(array.file):
                # The upper half of a float32 is the bfloat16 that it was.
                stream.write(_upper_halves(piece) if array.half else piece)


def _upper_halves(piece: bytes) -> bytes:
    return (np.frombuffer(piece, dtype="<u4") >> 16).astype("<u2").tobytes()


def _pieces(file: Path) -> Iterator[bytes]:
    with file.open("rb") as stream:
        while piece := stream.read(_PIECE):
            yield piece


_WRITERS: dict[str, Callable[[Path, Mapping[str, _Spooled], Mapping[str, str]], None]] = {
    ".npz": _npz,
    ".safetensors": _safetensors,
}

SUFFIXES = tuple(_WRITERS)
"""The endings of the files that can be written."""
