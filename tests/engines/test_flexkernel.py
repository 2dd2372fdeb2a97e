"""flex_attention's auxiliary output, where it is there, and what is done where it is not.

On a CPU torch refuses it, and computes what it would be all the same when it is not compiled: so
that refusal is lifted here, and what is computed is torch's own.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from engines.bounds import call_of
from engines.cases import Case
from engines.test_fused import MONITOR, assert_near
from engines.test_properties import EXAMPLES, cases
from hypothesis import given

from rootdk import Summary, measure
from rootdk._lib.errors import ArgumentError
from rootdk.engines import compiled, flexkernel

torch = pytest.importorskip("torch")

WANTED = ["entropy_nats", "effective_keys_2", "max_weight", "max_score", "min_score"]


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flexkernel, "_known", flexkernel._Known())


@pytest.fixture
def flex(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPUs have the auxiliary output, and nothing is compiled."""
    module = importlib.import_module("torch.nn.attention.flex_attention")
    for name in ("_apply_kernel_options", "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"):
        if not hasattr(module, name):
            pytest.skip(f"this torch has no {name}")
    options = module._apply_kernel_options

    def lifted(*args: Any) -> Any:
        *others, aux = args
        return {**options(*others, aux._replace(max_scores=False)), "OUTPUT_MAX": True}

    monkeypatch.setattr(module, "_apply_kernel_options", lifted)
    monkeypatch.setattr(module, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
    monkeypatch.setattr(flexkernel, "_compiled", lambda: flexkernel._attend)
    monkeypatch.setattr(flexkernel, "DEVICES", {"cpu"})


@pytest.fixture
def query(rng: np.random.Generator) -> Any:
    return torch.from_numpy(rng.normal(size=(1, 2, 150, 16))).float()


def measured(query: Any, **arguments: Any) -> Summary:
    return measure(query, query, quantities=WANTED, **arguments)


@EXAMPLES
@given(case=cases(), dtype=st.sampled_from(["float32", "float64", "bfloat16"]))
def test_flex_attention_agrees(case: Case, dtype: str, flex: None) -> None:
    flexkernel._known.compiled.clear()
    given_arrays, arguments = case.given("torch", dtype)
    try:
        summary = measure(*given_arrays, **arguments, quantities=MONITOR, engine="fused")
    except ArgumentError:
        return
    assert "flex_attention" in summary.engine
    # Extremes are of scores without what is added to them.
    beside = summary.engine.partition("; ")[2]
    assert beside.startswith("extremes beside it: blocked" if "bias" in arguments else "")
    assert_near(summary, case, dtype, MONITOR)


@pytest.mark.parametrize("rows", [1, 127, 128, 129, 300])
def test_causal_order_in_blocks(rows: int) -> None:
    module = importlib.import_module("torch.nn.attention.flex_attention")
    mine = flexkernel._causal_blocks(rows, "cpu")
    whole = module.create_block_mask(flexkernel._is_seen, None, None, rows, rows, device="cpu")
    assert mine.shape == whole.shape
    torch.testing.assert_close(mine.to_dense(), whole.to_dense())
    # What is not looked at within a block is visible, whole.
    many = mine.full_kv_num_blocks[0, 0].tolist()
    for block, so_many in enumerate(many):
        for keys in mine.full_kv_indices[0, 0, block, :so_many].tolist():
            assert (keys + 1) * flexkernel.BLOCK - 1 <= block * flexkernel.BLOCK
    assert mine.kv_num_blocks[0, 0].tolist() == [1] * len(many)
    assert mine.kv_indices[0, 0, :, 0].tolist() == list(range(len(many)))


def test_causal_order_is_the_kernels_own(
    flex: None, query: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    attend = flexkernel._attend

    def watched(*args: Any) -> Any:
        seen.append((args[3], args[4]))
        return attend(*args)

    monkeypatch.setattr(flexkernel, "_compiled", lambda: watched)
    measured(query, causal="top_left", engine="fused")
    assert len(seen) == 3  # once, at twice the scale, and for the least
    assert all(bias is None and blocks is not None for bias, blocks in seen)


def test_half_types_are_computed_in_float32(flex: None, query: Any) -> None:
    summary = measured(query.bfloat16(), engine="fused")
    assert summary.engine == "fused (torch, float32, flex_attention)"
    exact = measured(query.bfloat16().double(), engine="reference")
    np.testing.assert_allclose(summary["max_score"], exact["max_score"], rtol=1e-6)
    np.testing.assert_allclose(summary["min_score"], exact["min_score"], rtol=1e-6)


def test_compiling_is_worth_it_once_calls_have_cost_as_much(
    flex: None, query: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "fits", lambda call: False)
    monkeypatch.setattr("rootdk.engines.plan.SMALL", 0.0)
    monkeypatch.setattr(flexkernel, "COMPILING", 2e7)

    def used(query: Any) -> str:
        wanted = ["entropy_nats", "max_weight"]
        return measure(query, query, quantities=wanted).engine.partition(" ")[0]

    engines = [used(query) for _ in range(12)]
    assert engines[0] == "blocked"
    assert engines[-1] == "fused"
    assert engines == sorted(engines)
    # Another shape is compiled anew.
    assert used(query[:, :, :140]) == "blocked"
    assert used(query) == "fused"


def test_as_many_shapes_are_compiled_as_torch_compiles(flex: None, query: Any) -> None:
    engines = [measured(query[:, :, :rows], engine="fused").engine for rows in range(20, 32)]
    assert [engine.endswith("flex_attention)") for engine in engines] == [True] * 8 + [False] * 4
    again = measured(query[:, :, :20], engine="fused")
    assert again.engine == "fused (torch, float32, flex_attention)"


@pytest.mark.parametrize("arguments", [{}, {"causal": "top_left"}, {"bias": torch.ones(150)}])
def test_torch_can_trace_it_whole(
    arguments: dict[str, Any], flex: None, query: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it would for a device; what was traced is run as it is."""
    traced = torch.compile(flexkernel._attend, fullgraph=True, dynamic=False, backend="eager")
    monkeypatch.setattr(flexkernel, "_compiled", lambda: traced)
    summary = measured(query, **arguments, engine="fused")
    assert summary.engine.startswith("fused (torch, float32, flex_attention)")
    exact = measured(query, **arguments, engine="reference")
    for name in WANTED:
        np.testing.assert_allclose(summary[name], exact[name], rtol=1e-5, err_msg=name)


def test_few_shapes_are_remembered(rng: np.random.Generator) -> None:
    for keys in range(1, 200):
        call = call_of(Case(query=rng.normal(size=(1, 1, keys, 2)), key=np.ones((1, 1, keys, 2))))
        flexkernel.count_missed(call, 1.0)
    assert len(flexkernel._known.missed) == flexkernel._REMEMBERED
    assert flexkernel.compiling(call) == flexkernel.COMPILING - 1.0


def test_what_cannot_be_compiled_comes_from_blocks_and_is_not_asked_again(
    flex: None, query: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def broken(*args: Any) -> Any:
        asked.append(1)
        raise RuntimeError("no compiler\nand much more")

    monkeypatch.setattr(flexkernel, "_compiled", lambda: broken)
    for _ in range(2):
        summary = measured(query, engine="fused")
        assert "extremes, row_maximum beside it: blocked" in summary.engine
    assert len(asked) == 1
    # Another dtype may do.
    assert "beside it" in measured(query.double(), engine="fused").engine
    assert len(asked) == 2


def test_a_largest_score_that_is_wrong_is_not_believed(
    flex: None, query: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    attend = flexkernel._attend

    def wrong(*args: Any) -> Any:
        output, logsumexp, largest = attend(*args)
        return output, logsumexp, largest * 1.01

    monkeypatch.setattr(flexkernel, "_compiled", lambda: wrong)
    summary = measured(query, engine="fused")
    assert "flex_attention" not in summary.engine
    exact = measured(query, engine="reference")
    np.testing.assert_allclose(summary["max_score"], exact["max_score"], rtol=1e-6)
    assert not flexkernel.is_available(call_of(Case(query=query.numpy(), key=query.numpy())))


def test_torch_says_that_a_cpu_does_not_have_it(query: Any) -> None:
    """Where this fails, torch has learnt it, and DEVICES can grow."""
    assert "cpu" not in flexkernel.DEVICES
    module = importlib.import_module("torch.nn.attention.flex_attention")
    aux = module.AuxRequest(lse=True, max_scores=True)
    with pytest.raises(NotImplementedError, match="max scores"):
        module.flex_attention(query, query, query, return_aux=aux)


def test_the_maximum_of_rows_that_see_nothing(flex: None, query: Any) -> None:
    mask = torch.ones(150, 150, dtype=torch.bool)
    mask[7] = False
    summary = measured(query, mask=mask, engine="fused")
    exact = measured(query, mask=mask, engine="reference")
    for name in WANTED:
        np.testing.assert_allclose(summary[name], exact[name], rtol=1e-5, err_msg=name)
    nothing = measured(query, mask=torch.zeros(150, 150, dtype=torch.bool), engine="fused")
    assert all(math.isnan(each) for each in nothing["max_score"])
