"""Files from strangers are data: whatever is in one, it gives a diagnosis or one clear error."""

import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frontends.saved import attend, npz, safetensors
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rootdk
from rootdk._lib.errors import TargetError
from rootdk.frontends._arrays import store
from rootdk.frontends._arrays.document import Document, decode, encode


def small() -> dict[str, np.ndarray]:
    arrays = attend(np.random.default_rng(1), 1.0, batch=1, heads=1, queries=3, keys=3, head_dim=2)
    return {f"a.{name}": arrays[name] for name in ("query", "key", "weights")}


def whole(suffix: str, folder: Path) -> bytes:
    path = folder / f"whole{suffix}"
    if suffix == ".npz":
        npz(path, {**small(), "a.causal": "none", "rootdk": np.frombuffer(b"{}", np.uint8)})
    else:
        safetensors(path, small(), {"a.causal": "none", "rootdk": "{}"})
    return path.read_bytes()


def checked(path: Path, data: bytes) -> None:
    """Only a diagnosis, or an error of rootdk's own that names the file."""
    path.write_bytes(data)
    caught: TargetError | None = None
    try:
        assert rootdk.check(path).sites
    except TargetError as error:
        caught = error
    assert caught is None or str(path) in str(caught)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_the_whole_file_is_read(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_bytes(whole(suffix, tmp_path))
    (site,) = rootdk.check(path).sites
    assert site.resolved


@pytest.mark.parametrize("empty", [0, 1, 2, 3])
def test_a_file_with_a_size_of_nothing_is_a_diagnosis_or_one_error(
    empty: int, tmp_path: Path
) -> None:
    shape = [1, 2, 3, 4]
    shape[empty] = 0
    held = io.BytesIO()
    arrays = np.zeros(shape, dtype=np.float32)
    np.savez(held, query=arrays, key=arrays, value=arrays)
    checked(tmp_path / "x.npz", held.getvalue())


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_a_file_cut_short_anywhere_is_refused(suffix: str, tmp_path: Path) -> None:
    data = whole(suffix, tmp_path)
    path = tmp_path / f"x{suffix}"
    for length in range(0, len(data), 7):
        path.write_bytes(data[:length])
        with pytest.raises(TargetError):
            rootdk.check(path)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@given(data=st.data())
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_file_is_a_diagnosis_or_one_error(
    suffix: str, tmp_path: Path, data: st.DataObject
) -> None:
    damaged = bytearray(whole(suffix, tmp_path))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at] = data.draw(st.integers(0, 255))
    with np.errstate(all="ignore"):
        checked(tmp_path / f"x{suffix}", bytes(damaged))


@given(
    header=st.dictionaries(
        st.sampled_from(["a.query", "a.key", "a.scale", "__metadata__", "b"]),
        st.recursive(
            st.one_of(st.none(), st.integers(-2, 2**63), st.text(max_size=4), st.just("F32")),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["dtype", "shape", "data_offsets"]), inner, max_size=3
                )
            ),
            max_leaves=8,
        ),
    ),
    body=st.binary(max_size=16),
)
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_made_up_header_is_one_error(tmp_path: Path, header: dict[str, Any], body: bytes) -> None:
    text = json.dumps(header).encode()
    checked(tmp_path / "x.safetensors", struct.pack("<Q", len(text)) + text + body)


# ------------------------------------------------------------------ lies about size, and pickles


def member(header: bytes, data: bytes = b"") -> bytes:
    """A .npy with a header of one's own."""
    text = header + b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def zipped(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return path


def described(shape: str, dtype: str = "<f4") -> bytes:
    return f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}}}".encode()


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (member(described("(1000000, 1000000)")), "needs 4000000000000 bytes and has 0"),
        (member(described("(2, 2)"), bytes(15)), "needs 16 bytes and has 15"),
        (member(described("(-1, 2)")), "expected sizes from 0"),
        (member(described("(2,)", "|O"), bytes(16)), "because pickles are never loaded"),
        (member(described("(True,)"), bytes(4)), "expected sizes from 0"),
        (member(b"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}"), "plain"),
        (member(b"__import__('os').abort()"), "has no header"),
        (member(described("(" * 300)), "has no header"),
        (b"\x93NUMPY\x09\x00", "has no header"),
        (b"", "has no header"),
    ],
)  # fmt: skip
def test_a_member_that_lies_is_refused(query: bytes, message: str, tmp_path: Path) -> None:
    key = io.BytesIO()
    np.save(key, np.zeros((2, 2), np.float32))
    path = zipped(tmp_path / "x.npz", {"a.query.npy": query, "a.key.npy": key.getvalue()})
    with pytest.raises(TargetError) as caught:
        rootdk.check(path)
    assert message in str(caught.value)
    assert f"{path}: a.query" in str(caught.value)


def test_nothing_is_allocated_for_what_does_not_fit_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the memory is the most, for one array and for one site."""
    path = npz(tmp_path / "x.npz", small())
    loaded: list[str] = []
    monkeypatch.setattr("rootdk.frontends._arrays.reading.MANY_BYTES", 64)
    monkeypatch.setattr(store.Store, "read", lambda self, name: loaded.append(name))
    with pytest.raises(TargetError, match=r"the arrays of a take \d+ bytes; expected at most 64"):
        rootdk.check(path)
    assert loaded == []


def test_a_bomb_is_no_longer_than_deflate_can_be(tmp_path: Path) -> None:
    """A member that promises more than its compressed bytes can become is not opened."""
    data = member(described("(5000000,)"), bytes(20_000_000))
    members = {"a.query.npy": data, "a.key.npy": data}
    path = zipped(tmp_path / "x.npz", members, zipfile.ZIP_DEFLATED)
    raw = bytearray(path.read_bytes())
    true = struct.pack("<I", len(data))
    lie = struct.pack("<I", 2**31)
    assert raw.count(true) >= 4
    path.write_bytes(bytes(raw).replace(true, lie))
    with pytest.raises(TargetError, match="expected no more than the file can hold"):
        rootdk.check(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_are_refused(method: int, tmp_path: Path) -> None:
    data = member(described("(2, 2)"), bytes(16))
    path = zipped(tmp_path / "x.npz", {"a.query.npy": data, "a.key.npy": data}, method)
    with pytest.raises(TargetError, match="compressed in another way than deflate"):
        rootdk.check(path)


def test_a_name_that_stands_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    data = member(described("(2, 2)"), bytes(16))
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a.query.npy", data)
        with pytest.warns(UserWarning, match="Duplicate name"):
            file.writestr("a.query.npy", data)
    with pytest.raises(TargetError, match=r"holds a.query twice"):
        rootdk.check(path)


def test_overlapping_tensors_are_refused(tmp_path: Path) -> None:
    entry = {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}
    text = json.dumps({"a.query": entry, "a.key": entry}).encode()
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))
    with pytest.raises(TargetError, match=r"expected 8, where the one before it ends"):
        rootdk.check(path)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_a_file_of_other_things_says_what_is_expected(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{suffix}"
    arrays = {"layers.0.query.weight": np.zeros((2, 2), np.float32), "b": np.zeros(3, np.float32)}
    npz(path, arrays) if suffix == ".npz" else safetensors(path, arrays)
    with pytest.raises(TargetError) as caught:
        rootdk.check(path)
    assert "holds no array called <site>.query" in str(caught.value)
    assert "it holds layers.0.query.weight, b" in str(caught.value)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="is no file"):
        rootdk.check(tmp_path / "x.npz")


# ------------------------------------------------------------------ the document


def document_of(path: Path) -> dict[str, Any]:
    torch = pytest.importorskip("torch")
    layer = torch.nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)
    rootdk.capture(layer, torch.randn(1, 3, 8), path=path)
    found: dict[str, Any] = json.loads(np.load(path)["rootdk"].tobytes())
    return found


def test_a_document_comes_back_as_it_was(tmp_path: Path) -> None:
    text = json.dumps(document_of(tmp_path / "x.npz"))
    document = decode(text, "x")
    assert decode(encode(document), "x") == document
    assert isinstance(document, Document)
    assert document.sites[0].name == "self_attn"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "format is 2; expected 1"),
        ({"sites": 3}, "sites is 3; expected a list"),
        ({"sites": [{}]}, "sites[0] lacks a field"),
        ({"state": "x"}, "state is 'x'; expected one of init, trained, unknown"),
        ({"unknown": 3}, "has unknown; expected only its own fields"),
        ({"operations": True}, "operations is True; expected a int"),
        ({"environment": []}, "environment is a list; expected an object"),
    ],
)
def test_a_document_of_another_form_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(TargetError) as caught:
        decode(json.dumps(change), "x")
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "3", "{", "[" * 10**5])
def test_what_is_no_document_is_refused(text: str) -> None:
    with pytest.raises(TargetError, match=r"^x"):
        decode(text, "x")


def test_a_stranger_cannot_show_lines_of_local_files(tmp_path: Path) -> None:
    secret = tmp_path / "settings.py"
    secret.write_text("PASSWORD = 'rosebud'\n")
    site = document_of(tmp_path / "x.npz")["sites"][0]
    frame = {"file": str(secret), "line": 1, "function": "f", "text": "guess"}
    site["source"] = {"frames": [frame], "module_path": ""}
    unknown = decode(json.dumps({"sites": [site]}), "x").sites[0].source
    assert unknown is not None
    assert unknown.text == ""
    assert unknown.frames[0].file == f"<{secret}>"
    frame["text"] = "PASSWORD = 'rosebud'"
    known = decode(json.dumps({"sites": [site]}), "x").sites[0].source
    assert known is not None
    assert known.text == frame["text"]


def test_a_record_of_other_sizes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    document = document_of(path)
    document["sites"][0]["num_heads"] = 99
    arrays = dict(np.load(path))
    arrays["rootdk"] = np.frombuffer(json.dumps(document).encode(), np.uint8)
    np.savez(path, **arrays)
    with pytest.raises(TargetError, match=r"the record beside the arrays says num_heads = 99"):
        rootdk.check(path)


def test_a_record_of_another_scale_leaves_the_site_unresolved(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    document_of(path)
    arrays = dict(np.load(path))
    arrays["self_attn.scale"] = np.asarray(3.0)
    np.savez(path, **arrays)
    (site,) = rootdk.check(path).sites
    assert site.unresolved == "the stored scale is 3 and the record beside it says 0.5"
