"""Models exported by torch: the graph says what the module says, in every spelling of exporters."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults.registry import FAULTS, SOUND, Fault
from faults.transformer import SIZES, build

import rootdk
from rootdk.records import Diagnosis

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

FIRST_SPELLINGS = tuple({fault.module: fault for fault in reversed(FAULTS)}.values())
QUICK = tuple(f for f in FIRST_SPELLINGS if f.code in {"RDK102", "RDK301"})[:2]
# Exporters fold constants in float32 and may multiply them.
RELATIVE = 1e-5
# What the exported graph cannot show: dropout is taken out by the exporter.
ABSENT = frozenset({"RDK607"})


def exported(model: Any, inputs: tuple[Any, ...], path: Path, exporter: str) -> Path:
    """Through torch's dynamo, or the older exporter by tracing."""
    kind, _, opset = exporter.partition(" ")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            torch.onnx.export(
                model.eval(),
                inputs,
                str(path),
                dynamo=kind == "dynamo",
                opset_version=int(opset),
                verbose=False,
                **({"external_data": False} if kind == "dynamo" else {}),
            )
        except torch.onnx.errors.UnsupportedOperatorError as error:
            pytest.skip(f"the exporter has no such operation: {str(error).splitlines()[0]}")
    return path


def loud(diagnosis: Diagnosis) -> set[str]:
    return {f.code for f in diagnosis.findings if f.severity.reaches("warning")}


def agree(mine: Diagnosis, graph: Diagnosis) -> None:
    """The same sites, scales and statistics, within the rounding of two runtimes."""
    assert len(graph.sites) == len(mine.sites)
    assert not graph.unresolved, [site.unresolved for site in graph.unresolved]
    for one, two in zip(mine.sites, graph.sites, strict=True):
        sizes = ("batch", "num_heads", "num_kv_heads", "queries", "keys", "head_dim")
        assert [getattr(two, n) for n in sizes] == [getattr(one, n) for n in sizes]
        assert two.effective_scale == pytest.approx(one.effective_scale, rel=RELATIVE)
        assert two.verification.rows > 0
        a, b = mine.summaries[one.name], graph.summaries[two.name]
        for name in ("row_spread", "entropy_nats", "max_weight", "query_std", "key_std"):
            # float32 all the way through a few layers, in another order of summation.
            np.testing.assert_allclose(b[name], a[name], rtol=1e-3, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("exporter", ["dynamo 18", "dynamo 23", "traced 17"])
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(f, id=f.identity, marks=[] if f in QUICK else [pytest.mark.slow])
        for f in (*FIRST_SPELLINGS, *SOUND)
        if f.code not in ABSENT
    ],
)
def test_a_fault_has_the_same_code_in_its_export(
    fault: Fault, exporter: str, tmp_path: Path, seed: int
) -> None:
    if fault in QUICK and exporter == "dynamo 18":
        pytest.skip("the same spelling as opset 23 here")
    model, tokens = build(fault.attention, init="unit", size=SIZES[64], seed=seed)
    mine = rootdk.check(model.eval(), tokens)
    path = exported(model, (tokens,), tmp_path / "m.onnx", exporter)
    graph = rootdk.check(path, tokens.numpy())
    assert loud(graph) == loud(mine), [f.message for f in graph.findings]
    agree(mine, graph)


@pytest.mark.slow
def test_a_module_and_its_line_are_named(tmp_path: Path, seed: int) -> None:
    """The exporter keeps the frames of forward methods; the innermost calls the attention."""
    fault = next(f for f in FIRST_SPELLINGS if f.code == "RDK102")
    model, tokens = build(fault.attention, init="unit", size=SIZES[64], seed=seed)
    mine = rootdk.check(model.eval(), tokens)
    graph = rootdk.check(exported(model, (tokens,), tmp_path / "m.onnx", "dynamo 23"))
    assert [f.site for f in graph.findings] == [f.site for f in mine.findings]
    for finding in graph.findings:
        assert finding.source is not None
        assert finding.source.text == "return self.output(self.merge(self.attend(q, k, v)))"
