"""A model directory is looked through before anything of it is loaded."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from rootdk._lib.errors import TargetError
from rootdk.cli._safetensors import check_directory


def written(path: Path, header: Any, data: bytes = b"") -> Path:
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def test_a_directory_needs_safetensors_and_every_shard(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(
        TargetError, match=r"has no .safetensors file; expected one, because pickles"
    ):
        check_directory(tmp_path)
    written(tmp_path / "model-1.safetensors", {})
    check_directory(tmp_path)
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(
        TargetError, match=r"lacks model-2.safetensors, which model.safetensors.index"
    ):
        check_directory(tmp_path)
    written(tmp_path / "model-2.safetensors", {}, b"more")
    with pytest.raises(TargetError, match=r"model-2.safetensors promises 0 bytes of tensors"):
        check_directory(tmp_path)


@pytest.mark.parametrize("index", [{}, {"weight_map": 3}, {"weight_map": {"a": 3}}])
def test_an_index_that_says_nothing_is_refused(tmp_path: Path, index: Any) -> None:
    written(tmp_path / "model-1.safetensors", {})
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(TargetError, match=r"model.safetensors.index.json"):
        check_directory(tmp_path)
