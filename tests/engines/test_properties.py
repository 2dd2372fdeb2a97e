"""Whatever the call, every engine is within the bounds of the reference."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from engines.bounds import EPS_64, Bounds
from engines.cases import Case
from engines.test_agreement import (
    EPS_32,
    NUMBERS,
    assert_histograms_agree,
    assert_samples_agree,
    assert_within,
    oracle_of,
)
from hypothesis import HealthCheck, given, settings

from rootdk import Summary, measure
from rootdk.engines import compiled, entries, linear, operands

torch = pytest.importorskip("torch")

EXAMPLES = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def cases(draw: st.DrawFn, *, plain: bool = False) -> Case:
    """A call of any shape, order and size of scores; ``plain`` has no mask, bias or softcap."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    batch, kv_heads, group = (draw(st.integers(1, 2)) for _ in range(3))
    queries, keys = draw(st.integers(1, 70)), draw(st.integers(1, 130))
    packed = draw(st.integers(0, 3)) == 0
    if packed:
        queries = keys = draw(st.integers(1, 100))
    head_dim = draw(st.sampled_from([1, 3, 8, 33]))
    shift = draw(st.sampled_from([0.0, 0.0, 5.0, 300.0]))
    query = rng.normal(size=(batch, kv_heads * group, queries, head_dim)) + shift
    key = rng.normal(size=(batch, kv_heads, keys, head_dim)) + shift
    largest = draw(st.sampled_from([None, 1e-3, 10.0, 200.0, 1e4]))
    arguments: dict[str, Any] = {}
    if largest is not None:
        norms = [np.sqrt(np.max(np.sum(array**2, axis=-1))) for array in (query, key)]
        arguments["scale"] = float(largest / (norms[0] * norms[1]))
    arguments["causal"] = draw(st.sampled_from([None, "top_left", "bottom_right"]))
    if draw(st.booleans()):
        ends = st.none() | st.integers(0, 40)
        arguments["window"] = (draw(ends), draw(ends))
    if packed:
        inner = draw(st.lists(st.integers(0, keys), max_size=6))
        arguments["segments"] = [0, *sorted(inner), keys]
    if not plain:
        shape = [
            draw(st.sampled_from([1, size])) for size in (batch, kv_heads * group, queries, keys)
        ]
        if draw(st.booleans()):
            arguments["mask"] = rng.random(shape) < draw(st.sampled_from([0.0, 0.1, 0.7, 1.0]))
        if draw(st.booleans()):
            bias = rng.normal(size=shape) * draw(st.sampled_from([1.0, 30.0]))
            bias[rng.random(shape) < 0.2] = -np.inf
            arguments["bias"] = bias
        arguments["softcap"] = draw(st.sampled_from([None, None, 2.0, 50.0]))
    return Case(query=query, key=key, arguments=arguments)


@pytest.fixture
def small_calls_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operands, "SMALL", 0)
    monkeypatch.setattr(linear, "SMALL", 0)
    for of in (compiled, entries):
        monkeypatch.setattr(of, "WORTH", 0)
        monkeypatch.setattr(of, "WORTH_LOADED", 0)


def eps_of(summary: Summary) -> float:
    return EPS_32 if "float32" in summary.engine else EPS_64


def assert_all_agree(summary: Summary, case: Case, dtype: str) -> None:
    exact = case.rounded(dtype)
    bounds = Bounds(case=exact, eps=eps_of(summary), oracle=oracle_of(exact, dtype))
    assert_within(summary, bounds, [name for name in NUMBERS if name in summary])
    assert_histograms_agree(summary, bounds)
    assert_samples_agree(summary, bounds)


@EXAMPLES
@given(case=cases(), dtype=st.sampled_from(["float32", "bfloat16", "float16", "float64"]))
def test_compiled_agrees(case: Case, dtype: str, small_calls_count: None) -> None:
    pytest.importorskip("numba")
    given_arrays, arguments = case.given("torch", dtype)
    summary = measure(*given_arrays, **arguments, engine="blocked")
    assert_all_agree(summary, case, dtype)


@EXAMPLES
@given(
    case=cases(),
    dtype=st.sampled_from(["float32", "bfloat16"]),
    library=st.sampled_from(["numpy", "torch"]),
)
def test_uncompiled_agrees(
    case: Case, dtype: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operands, "SMALL", 0)
    monkeypatch.setattr(compiled, "fits", lambda call: False)
    given_arrays, arguments = case.given(library, dtype)
    summary = measure(*given_arrays, **arguments, engine="blocked")
    assert "numba" not in summary.engine
    assert_all_agree(summary, case, dtype)


@EXAMPLES
@given(case=cases(plain=True), dtype=st.sampled_from(["float32", "float64", "bfloat16"]))
def test_linear_agrees(case: Case, dtype: str, small_calls_count: None) -> None:
    given_arrays, arguments = case.given("torch", dtype)
    names = ["spread", "row_spread", "score_mean", "rows", "visible_scores", "empty_rows"]
    summary = measure(*given_arrays, **arguments, quantities=names, engine="linear")
    exact = case.rounded(dtype)
    bounds = Bounds(case=exact, eps=eps_of(summary), oracle=oracle_of(exact, dtype))
    assert_within(summary, bounds, names)


@pytest.fixture
def not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code is installed and not loaded, and nothing has been measured."""
    pytest.importorskip("numba")
    monkeypatch.setattr(compiled, "is_loaded", lambda: False)
    monkeypatch.setattr(compiled, "_missed", compiled._Missed())


def test_calls_add_up_to_what_loading_compiled_code_is_worth(
    not_loaded: None, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    monkeypatch.setattr(compiled, "WORTH", 3 * 2 * 40 * 40)
    query = rng.normal(size=(2, 40, 8)).astype(np.float32)
    engines = [measure(query, query).engine for _ in range(2)]
    # What no compiled code could take does not count.
    measure(query.astype(np.float64), query.astype(np.float64))
    measure(query, query, quantities=["spread"])
    assert not any("numba" in engine for engine in engines)
    assert "numba" in measure(query, query).engine


def test_a_call_that_is_large_by_itself_loads_compiled_code(
    not_loaded: None, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    monkeypatch.setattr(compiled, "WORTH", 2 * 40 * 40)
    query = rng.normal(size=(2, 40, 8)).astype(np.float32)
    assert "numba" not in measure(query[:, :-1], query).engine
    monkeypatch.setattr(compiled, "_missed", compiled._Missed())
    assert "numba" in measure(query, query).engine


@pytest.mark.parametrize("loaded", [False, True])
def test_calls_do_not_load_compiled_code_unless_they_are_many(loaded: bool, tmp_path: Path) -> None:
    pytest.importorskip("numba")
    script = tmp_path / "small.py"
    script.write_text(
        "import sys\n"
        "import numpy as np\n"
        "import rootdk\n"
        + ("import rootdk.engines._numba.rows\n" if loaded else "")
        + "query = np.random.default_rng(0).normal(size=(2, 400, 8)).astype(np.float32)\n"
        "summary = rootdk.measure(query, query)\n"
        "print('numba' in sys.modules, 'numba' in summary.engine)\n",
        encoding="utf-8",
    )
    command = [sys.executable, str(script)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert out.split() == [str(loaded), str(loaded)]


def test_a_call_of_real_size_is_compiled(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    pytest.importorskip("numba")
    monkeypatch.setattr(compiled, "WORTH", 2**20)
    query = rng.normal(size=(1, 2, 1100, 24)).astype(np.float32)
    key = rng.normal(size=(1, 1, 1300, 24)).astype(np.float32)
    query.flags.writeable = False
    summary = measure(query, key, causal="bottom_right")
    assert summary.engine == "blocked (numba, float32, 32×1300)"
    oracle = measure(query, key, causal="bottom_right", engine="reference")
    for name in ("spread", "entropy_nats", "max_weight", "jacobian_norm", "effective_keys_2"):
        np.testing.assert_allclose(summary[name], oracle[name], rtol=2e-6, err_msg=name)
    assert summary["sample_rows"][0][0].size


def test_what_compiled_code_cannot_hold_is_left_to_others(
    small_calls_count: None, rng: np.random.Generator
) -> None:
    query = rng.normal(size=(2, 30, 8)).astype(np.float32)
    assert "numba" in measure(query, query, engine="blocked").engine
    large = measure(1e3 * query, 1e3 * query, engine="blocked")
    assert large.engine == "blocked (numpy, float64, 30×30)"
    query[0, 0, 0] = np.nan
    assert "numba" not in measure(query, query, engine="blocked").engine


def test_the_exponential_and_the_hyperbolic_tangent() -> None:
    pytest.importorskip("numba")
    from rootdk.engines._numba import passes

    numbers = np.linspace(-87, 0, 20001).astype(np.float32)
    ours = np.asarray([passes.exponential(number) for number in numbers], dtype=np.float64)
    exact = np.exp(numbers.astype(np.float64))
    assert np.max(np.abs(ours / exact - 1)) < 2e-7
    assert passes.exponential(np.float32(-1e30)) == 0.0
    assert passes.exponential(np.float32(0.0)) == 1.0
    numbers = np.linspace(-12, 12, 20002).astype(np.float32)
    ours = np.asarray([passes.hyperbolic_tangent(number) for number in numbers], dtype=np.float64)
    assert np.max(np.abs(ours / np.tanh(numbers.astype(np.float64)) - 1)) < 4e-7
