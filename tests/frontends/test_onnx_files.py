"""ONNX files from strangers: external data stay in their folder, sizes are looked at first."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from frontends.onnx_graphs import BATCH, LENGTH, WIDTH, Graph, attention, projected, saved, turned
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import external_data_helper, numpy_helper

import rootdk
from rootdk._lib.errors import TargetError
from rootdk.frontends._onnx import interpret
from rootdk.frontends._onnx.leaves import is_frequencies, is_rotary_table

SMALL = {"x": np.zeros((BATCH, LENGTH, WIDTH), np.float32)}


def outside(folder: Path, **changes: Any) -> tuple[onnx.ModelProto, Path]:
    """A model whose first weight lies in a file beside it, in the way that is said."""
    model = attention("mul")
    tensor = next(t for t in model.graph.initializer if len(t.dims) == 2)
    data = numpy_helper.to_array(tensor).tobytes()
    (folder / "weights.bin").write_bytes(b"before" + data)
    info = {"location": "weights.bin", "offset": 6, "length": len(data), **changes}
    external_data_helper.set_external_data(tensor, **info)
    tensor.ClearField("raw_data")
    return model, saved(model, folder / "m.onnx")


def test_external_data_are_read_where_they_lie(tmp_path: Path, rng: np.random.Generator) -> None:
    x = rng.normal(size=SMALL["x"].shape).astype(np.float32)
    _, path = outside(tmp_path)
    mine, again = rootdk.check(attention("mul"), x=x), rootdk.check(path, x=x)
    (name,) = mine.summaries
    np.testing.assert_array_equal(mine.summaries[name]["spread"], again.summaries[name]["spread"])


def test_weights_of_the_library_s_own_external_format(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    x = rng.normal(size=SMALL["x"].shape).astype(np.float32)
    path = tmp_path / "m.onnx"
    onnx.save(attention("mul"), str(path), save_as_external_data=True, size_threshold=0)
    assert rootdk.check(path, x=x).sites[0].resolved


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"location": "../secret.bin"}, "expected a file in the folder of the model or below it"),
        ({"location": "/etc/hostname"}, "expected a file in the folder of the model or below it"),
        ({"location": "a\\..\\secret.bin"}, "expected a file in the folder of the model"),
        ({"location": "link.bin"}, "expected a file in the folder of the model or below it"),
        ({"location": "nowhere.bin"}, "which is no file"),
        ({"location": "."}, "which is no file"),
        ({"offset": 7}, "needs 16384 bytes from 7 of 'weights.bin'; that file has 16390"),
        ({"offset": -1}, "cannot be read"),
        ({"length": 12}, "needs 16384 bytes, and 12 are given to it"),
    ],
)
def test_external_data_elsewhere_are_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    secret = tmp_path / "secret.bin"
    secret.write_bytes(bytes(20000))
    (folder / "link.bin").symlink_to(secret)
    _, path = outside(folder, **changes)
    with pytest.raises(TargetError) as caught:
        rootdk.check(path, **SMALL)
    assert message in str(caught.value)


def test_a_tensor_that_is_not_as_long_as_its_shape_is_refused(tmp_path: Path) -> None:
    model = attention("mul")
    tensor = next(t for t in model.graph.initializer if len(t.dims) == 2)
    tensor.dims[0] = 1 << 40
    with pytest.raises(TargetError, match="needs 281474976710656 bytes and has 16384"):
        rootdk.check(saved(model, tmp_path / "m.onnx"))
    tensor.dims[0] = -1
    with pytest.raises(TargetError, match="has the shape"):
        rootdk.check(saved(model, tmp_path / "m.onnx"))


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("ConstantOfShape", [1 << 20, 1 << 20]),
        ("Expand", [1 << 20, 1 << 20]),
        ("Tile", [1 << 40]),
        ("Range", None),
    ],
)
def test_a_few_numbers_cannot_ask_for_all_memory(
    kind: str, shape: list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    g = Graph()
    if kind == "ConstantOfShape":
        out = g(kind, g.const(shape, np.int64))
    elif kind == "Range":
        out = g(kind, g.const(0, np.int64), g.const(1 << 50, np.int64), g.const(1, np.int64))
    else:
        out = g(kind, g.const([1.0]), g.const(shape, np.int64))
    ran: list[str] = []
    monkeypatch.setattr(interpret.Kernels, "run", lambda self, node, *_: ran.append(node.op_type))
    with pytest.raises(TargetError, match=r"asks for 1.1\d*e\+\d+ numbers; expected at most"):
        rootdk.check(g.model({"x": [1]}, out), x=np.zeros(1, np.float32))
    assert ran == []


@pytest.mark.parametrize("data", [b"", b"nonsense", b"\x08\x0a", bytes(64)])
def test_what_is_no_model_is_one_error(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    with pytest.raises(TargetError, match=r"m\.onnx"):
        rootdk.check(path)
    with pytest.raises(TargetError, match="is no file"):
        rootdk.check(tmp_path / "nowhere.onnx")


@given(data=st.data())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_model_is_a_diagnosis_or_one_error(tmp_path: Path, data: st.DataObject) -> None:
    whole = bytearray(attention("mul").SerializeToString())
    # The graph stands before and after the weights, whose bytes may be anything.
    ends = st.one_of(st.integers(0, 400), st.integers(len(whole) - 800, len(whole) - 1))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(ends)] = data.draw(st.integers(0, 255))
    path = tmp_path / "m.onnx"
    path.write_bytes(bytes(whole))
    caught: TargetError | None = None
    try:
        rootdk.check(path, rootdk={"rows": 4})
    except TargetError as error:
        caught = error
    assert caught is None or str(caught)


def test_a_graph_that_lacks_an_operation_says_what_it_lacks() -> None:
    g = Graph()
    query = projected(g, "x", "q", 0)
    out = g("MatMul", query, turned(g, "nobody"))
    with pytest.raises(TargetError, match="nothing makes 'nobody'; expected a whole graph"):
        rootdk.check(g.model({"x": [BATCH, LENGTH, WIDTH]}, out), **SMALL)


def test_an_operation_that_nobody_knows_is_named() -> None:
    g = Graph()
    out = g("Frobnicate", "x", domain="strange")
    with pytest.raises(TargetError, match="Frobnicate '/Frobnicate_0' cannot be run"):
        rootdk.check(g.model({"x": [BATCH, LENGTH, WIDTH]}, out), **SMALL)


# ------------------------------------------------------------------ what an initializer is


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("gain", [1.0, 1.3465])
@pytest.mark.parametrize("base", [10_000.0, 1_000_000.0])
def test_rotary_tables_are_recognised(dtype: Any, gain: float, base: float) -> None:
    angles = np.arange(16)[:, None] * base ** (-np.arange(0, 32, 2) / 32)
    for table in (np.cos(angles), np.sin(angles)):
        assert is_rotary_table((gain * np.concatenate([table, table], -1)).astype(dtype))


def test_embeddings_are_no_rotary_tables(rng: np.random.Generator) -> None:
    for size in (0.02, 1.0):
        table = size * rng.normal(size=(50, 32))
        assert not is_rotary_table(table)
        table[0] = 0.0  # the row of padding
        assert not is_rotary_table(table)
    assert not is_rotary_table(np.ones((50, 32)) * np.linspace(1, 2, 50)[:, None])


def test_frequencies_fall_from_one(rng: np.random.Generator) -> None:
    assert is_frequencies(10_000.0 ** (-np.arange(8) / 8))
    assert not is_frequencies(np.ones(8))
    assert not is_frequencies(rng.normal(size=8))
