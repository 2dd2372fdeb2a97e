"""A NumPy ``.npz`` file, read without pickle and without trust in what it promises."""

from __future__ import annotations

import math
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from rootdk._lib.errors import TargetError
from rootdk.frontends._arrays.store import Entry, Store, native

__all__ = ["NpzStore"]

_METHODS = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: 1100}
"""How many bytes one byte of the file can become at most; deflate reaches 1032."""

_MEMBER_END = ".npy"
_ENCRYPTED = 0x1
_CHUNK = 1 << 24
_READ_HEADER = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_BROKEN = (
    OSError,
    EOFError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    OverflowError,
    MemoryError,
    RecursionError,
    SyntaxError,
    NotImplementedError,
    RuntimeError,
    UnicodeError,
    tokenize.TokenError,
    zlib.error,
    zipfile.BadZipFile,
)
"""What zipfile and NumPy raise at files that somebody damaged or made up."""

_Header = tuple[tuple[int, ...], bool, "np.dtype[Any]"]


class NpzStore(Store):
    """The arrays of an ``.npz`` file; each is read when it is asked for."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.words: Mapping[str, str] = {}
        self._path = path
        self._size = path.stat().st_size
        try:
            with zipfile.ZipFile(path) as file:
                members = file.infolist()
        except _BROKEN as error:
            raise TargetError(f"{path} is no .npz file: {_said(error)}") from None
        self._members: dict[str, zipfile.ZipInfo] = {}
        for member in members:
            name = member.filename.removesuffix(_MEMBER_END)
            if name in self._members:
                raise TargetError(f"{path} holds {name} twice; expected each name once")
            if member.filename.endswith(_MEMBER_END):
                self._members[name] = member
        self._headers: dict[str, Entry] = {}

    def names(self) -> tuple[str, ...]:
        """The names of the arrays, in the order of the file."""
        return tuple(self._members)

    def entry(self, name: str) -> Entry:
        """The shape and dtype that a member's header gives, if the file can hold as much."""
        if name not in self._headers:
            with self._opened(name) as stream:
                self._headers[name] = self._entry(name, self._header(name, stream), stream)
        return self._headers[name]

    def load(self, name: str) -> npt.NDArray[Any]:
        """The array, read in pieces to its last byte, whose checksum must agree."""
        entry = self.entry(name)
        with self._opened(name) as stream:
            shape, fortran, dtype = self._header(name, stream)
            try:
                data = bytearray(entry.bytes)
                self._fill(name, stream, memoryview(data))
            except TargetError:
                raise
            except _BROKEN as error:
                raise TargetError(f"{self.name}: {name} cannot be read: {_said(error)}") from None
        flat = np.frombuffer(data, dtype, math.prod(shape)) if data else np.empty(0, dtype)
        return native(flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape))

    def _fill(self, name: str, stream: IO[bytes], view: memoryview) -> None:
        at = 0
        while at < len(view):
            piece = stream.read(min(_CHUNK, len(view) - at))
            if not piece:
                break
            view[at : at + len(piece)] = piece
            at += len(piece)
        if at != len(view) or stream.read(1):
            more = "more" if at == len(view) else f"only {at}"
            raise TargetError(f"{self.name}: {name} promises {len(view)} bytes and has {more}")

    def _opened(self, name: str) -> _Member:
        member = self._members[name]
        most = _METHODS.get(member.compress_type)
        if member.flag_bits & _ENCRYPTED or most is None:
            raise TargetError(
                f"{self.name}: {name} is encrypted, or compressed in another way than deflate"
            )
        if member.file_size > most * member.compress_size or member.compress_size > self._size:
            raise TargetError(
                f"{self.name}: {name} promises {member.file_size} bytes out of "
                f"{member.compress_size}; expected no more than the file can hold"
            )
        try:
            file = zipfile.ZipFile(self._path)
            return _Member(file, file.open(member))
        except _BROKEN as error:
            raise TargetError(f"{self.name}: {name} cannot be read: {_said(error)}") from None

    def _header(self, name: str, stream: IO[bytes]) -> _Header:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                version = np.lib.format.read_magic(stream)
                shape, fortran, dtype = _READ_HEADER[version](stream)
        except _BROKEN as error:
            raise TargetError(f"{self.name}: {name} has no header: {_said(error)}") from None
        if dtype.hasobject or dtype.fields is not None or dtype.subdtype is not None:
            raise TargetError(
                f"{self.name}: {name} holds {dtype}; expected plain numbers, because pickles "
                "are never loaded"
            )
        if any(isinstance(n, bool) or n < 0 for n in shape):
            raise TargetError(f"{self.name}: {name} has the shape {shape}; expected sizes from 0")
        return shape, bool(fortran), dtype

    def _entry(self, name: str, header: _Header, stream: IO[bytes]) -> Entry:
        shape, _, dtype = header
        needed = math.prod(shape) * dtype.itemsize
        left = self._members[name].file_size - stream.tell()
        if needed != left:
            raise TargetError(
                f"{self.name}: {name} of shape {shape} and dtype {dtype} needs {needed} bytes "
                f"and has {left}; expected a whole array"
            )
        return Entry(shape=shape, dtype=dtype.name, bytes=needed)


class _Member:
    """A member's stream that closes the file with it."""

    def __init__(self, file: zipfile.ZipFile, stream: IO[bytes]) -> None:
        self._file = file
        self._stream = stream

    def __enter__(self) -> Any:
        return self._stream

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._file.close()


def _said(error: BaseException) -> str:
    words = " ".join(str(error).split())[:200]
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
