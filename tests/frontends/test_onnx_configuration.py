"""What declares a scale of an ONNX model: nothing in the file, unless something lies beside it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from rootdk.records import Diagnosis, Finding

pytest.importorskip("onnxruntime")

from frontends.onnx_graphs import BATCH, LENGTH, WIDTH, Graph, attention, saved
from onnx import helper, numpy_helper

import rootdk
from rootdk.frontends._onnx.loading import Loaded
from rootdk.frontends._onnx.state import graph_state

SCALE = 1 / 16  # query_pre_attn_scalar = 256, where head_dim is 16
DECLARES = {"model_type": "gemma2", "query_pre_attn_scalar": 256}
NONE = "an ONNX file holds no configuration that could declare it"


def entering(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(BATCH, LENGTH, WIDTH)).astype(np.float32)


def only(diagnosis: Diagnosis) -> Finding:
    (finding,) = [f for f in diagnosis.findings if f.code.startswith("RDK1")]
    return finding


def test_a_file_alone_is_said_to_declare_nothing(tmp_path: Path, rng: np.random.Generator) -> None:
    path = saved(attention("mul", SCALE), tmp_path / "model.onnx")
    finding = only(rootdk.check(str(path), entering(rng)))
    assert finding.severity == "warning"
    assert NONE in finding.message
    assert "graph, config" not in finding.message
    assert "--expect" in finding.remedy
    assert "=0.0625'" in finding.remedy


def test_what_is_declared_by_the_user_is_not_spoken_of(rng: np.random.Generator) -> None:
    options = {"expect": {"*": "1/sqrt(256)"}}
    diagnosis = rootdk.check(attention("mul", SCALE), entering(rng), rootdk=options)
    assert not [f for f in diagnosis.findings if f.code.startswith("RDK1")]


@pytest.mark.parametrize("folder", [".", "onnx"])
def test_a_configuration_beside_the_file_declares(
    folder: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / "config.json").write_text(json.dumps(DECLARES), encoding="utf-8")
    path = saved(attention("mul", SCALE), tmp_path / folder / "model.onnx")
    diagnosis = rootdk.check(str(path), entering(rng))
    assert only(diagnosis).severity == "note"
    assert "declared by query_pre_attn_scalar = 256" in only(diagnosis).message
    assert any("config.json" in remark for remark in diagnosis.remarks)


@pytest.mark.parametrize(
    "written",
    ["", "{", "[1]", "{}", '{"query_pre_attn_scalar": 256}', "[" * 100_000, '{"model_type": ""}'],
)
def test_what_is_no_configuration_of_a_model_is_passed_over(
    written: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    (tmp_path / "config.json").write_text(written, encoding="utf-8")
    path = saved(attention("mul", SCALE), tmp_path / "model.onnx")
    diagnosis = rootdk.check(str(path), entering(rng))
    assert NONE in only(diagnosis).message
    assert not any("config.json" in remark for remark in diagnosis.remarks)


@pytest.mark.parametrize(
    ("entries", "severity", "words"),
    [
        ({"query_pre_attn_scalar": "256"}, "note", "declared by query_pre_attn_scalar = 256"),
        ({"config": json.dumps(DECLARES)}, "note", "declared by query_pre_attn_scalar = 256"),
        ({"config": json.dumps({"model_type": "t"})}, "warning", "nothing in graph, config"),
        ({"author": "somebody"}, "warning", NONE),
    ],
)
def test_the_metadata_of_a_file_are_read(
    entries: dict[str, str], severity: str, words: str, rng: np.random.Generator
) -> None:
    model = attention("mul", SCALE)
    helper.set_model_props(model, entries)
    finding = only(rootdk.check(model, entering(rng)))
    assert (finding.severity, words in finding.message) == (severity, True)


def by_root(g: Graph, x: str, kind: str) -> str:
    """x over its root mean square, as exporters write it."""
    mean = g("ReduceMean", g("Mul", x, x), g.const([-1], np.int64), keepdims=1)
    root = g("Sqrt", g("Add", mean, g.const(1e-6)))
    if kind == "divided":
        return str(g("Div", x, root))
    over = g("Reciprocal", root) if kind == "reciprocal" else g("Div", g.const(1.0), root)
    return str(g("Mul", x, over))


@pytest.mark.parametrize("gain", [1.0, 0.7])
@pytest.mark.parametrize("kind", ["divided", "reciprocal", "one over"])
def test_a_norm_by_hand_tells_the_state(kind: str, gain: float) -> None:
    g = Graph()
    weight = g.hold(np.full(WIDTH, gain, np.float32), "norm.weight")
    model = g.model({"x": (BATCH, LENGTH, WIDTH)}, g("Mul", weight, by_root(g, "x", kind)))
    state, _ = graph_state(Loaded(model, Path(), "m"))
    assert state == ("init" if gain == 1.0 else "trained")


def shrunken(model: onnx.ModelProto, by: float) -> onnx.ModelProto:
    """The same graph with a smaller projection of the query: what T5 has in place of a scale."""
    for tensor in model.graph.initializer:
        if tensor.name.endswith("/q.weight"):
            values: Any = numpy_helper.to_array(tensor) * np.float32(by)
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return model


@pytest.mark.parametrize(("by", "severity"), [(0.125, "note"), (1.0, "warning")])
def test_initializers_tell_whether_the_projections_carry_the_scale(
    by: float, severity: str, rng: np.random.Generator
) -> None:
    finding = only(rootdk.check(shrunken(attention("mul", 1.0), by), entering(rng)))
    assert finding.severity == severity
    assert ("the projections carry it" in finding.message) == (severity == "note")
