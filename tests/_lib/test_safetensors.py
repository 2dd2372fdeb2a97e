"""A safetensors file is compared with its header before anything is allocated."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from rootdk._lib.errors import TargetError
from rootdk._lib.safetensors import check_file


def written(path: Path, header: Any, data: bytes = b"", *, length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    size = len(text) if length is None else length
    path.write_bytes(struct.pack("<Q", size) + text + data)
    return path


def entry(shape: list[Any], begin: int, end: int, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def test_a_whole_file_is_accepted(tmp_path: Path) -> None:
    header = {"a": entry([2], 0, 8), "b": entry([], 8, 10, "F16"), "__metadata__": {"x": "y"}}
    check_file(written(tmp_path / "a.safetensors", header, bytes(10)))
    check_file(written(tmp_path / "empty.safetensors", {}))
    unknown = {"a": entry([3], 0, 2, "F4_OF_THE_FUTURE")}
    check_file(written(tmp_path / "new.safetensors", unknown, bytes(2)))


def test_the_library_agrees_on_what_a_whole_file_is(tmp_path: Path) -> None:
    numpy = pytest.importorskip("safetensors.numpy")
    import numpy as np

    file = tmp_path / "a.safetensors"
    numpy.save_file({"a": np.zeros((3, 5), np.float16), "b": np.ones(4, np.int64)}, file)
    check_file(file)


@pytest.mark.parametrize(
    ("header", "data", "length", "message"),
    [
        ({"a": entry([2], 0, 8)}, bytes(7), None, "promises 8 bytes of tensors and has 7"),
        ({"a": entry([2], 0, 8)}, bytes(9), None, "promises 8 bytes of tensors and has 9"),
        ({}, b"", 2**62, "promises a header of 4611686018427387904 bytes and has 2 left"),
        ({"a": entry([10**12], 0, 8)}, bytes(8), None, "gives a 8 bytes; expected 4000000000000"),
        ({"a": entry([-1], 0, 8)}, bytes(8), None, "describes a in a way that cannot be read"),
        ({"a": entry([2], 8, 0)}, bytes(8), None, "describes a in a way that cannot be read"),
        ({"a": entry([True], 0, 4)}, bytes(8), None, "promises 4 bytes of tensors and has 8"),
        ({"a": {"dtype": "F32"}}, b"", None, "describes a in a way that cannot be read"),
        ({"a": 3}, b"", None, "describes a in a way that cannot be read"),
        (b"{nonsense", b"", None, "has a header that cannot be read; expected JSON"),
        (b"[1, 2]", b"", None, "has a header that cannot be read; expected JSON"),
        (b"[" * 50000, b"", None, "has a header that cannot be read; expected JSON"),
        (b"\xff\xfe{}", b"", None, "has a header that cannot be read; expected JSON"),
    ],
)  # fmt: skip
def test_a_truncated_or_lying_file_is_refused(
    tmp_path: Path, header: Any, data: bytes, length: int | None, message: str
) -> None:
    file = written(tmp_path / "model.safetensors", header, data, length=length)
    with pytest.raises(TargetError) as caught:
        check_file(file)
    assert message in str(caught.value)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize("size", [0, 7, 8, 9])
def test_a_file_too_short_for_a_header_is_refused(tmp_path: Path, size: int) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(bytes(size))
    with pytest.raises(TargetError, match="promises a header"):
        check_file(file)
