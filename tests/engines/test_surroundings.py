"""Whatever is switched on around a call, its measurements are right and nothing changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from rootdk import Summary, measure  # noqa: E402
from rootdk.engines import operands, plain  # noqa: E402

NAMES = ["spread", "row_spread", "entropy_nats", "max_weight", "jacobian_norm", "key_std"]


class Counting(TorchDispatchMode):
    """A mode as a tracer would use: it sees every operation and lets it pass."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen += 1
        return func(*args, **(kwargs or {}))


@contextmanager
def default_dtype(dtype: Any) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def matmul_precision(name: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


SURROUNDINGS: dict[str, Any] = {
    "nothing": nullcontext,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "inference_mode": torch.inference_mode,
    "no_grad": torch.no_grad,
    "enable_grad": torch.enable_grad,
    "anomaly_detection": torch.autograd.detect_anomaly,
    "dispatch_mode": Counting,
    "default_float64": lambda: default_dtype(torch.float64),
    "default_half": lambda: default_dtype(torch.float16),
    "medium_matmul": lambda: matmul_precision("medium"),
    "meta_device": lambda: torch.device("meta"),
}


@pytest.fixture(autouse=True)
def float32_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operands, "SMALL", 0)
    monkeypatch.setattr(plain, "TILE", 10 * 24)
    monkeypatch.setattr(plain, "FLAT_TILE", 10 * 24)


@pytest.fixture
def arrays(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    query = rng.normal(size=(1, 4, 20, 8)).astype(np.float32)
    return query, rng.normal(size=(1, 2, 24, 8)).astype(np.float32)


def assert_right(summary: Summary, arrays: tuple[np.ndarray, np.ndarray], **more: Any) -> None:
    oracle = measure(*arrays, **more, engine="reference")
    for name in NAMES:
        assert_allclose(summary[name], oracle[name], rtol=3e-6, err_msg=name)


@pytest.mark.parametrize("surrounding", SURROUNDINGS)
@pytest.mark.parametrize("wants_gradient", [False, True], ids=["plain", "wants_gradient"])
@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
def test_measured_inside(
    surrounding: str, wants_gradient: bool, arrays: tuple[np.ndarray, np.ndarray]
) -> None:
    query, key = (torch.from_numpy(array.copy()) for array in arrays)
    query.requires_grad_(wants_gradient)
    mask = torch.ones(20, 24, dtype=torch.bool).tril(3)
    context: AbstractContextManager[Any] = SURROUNDINGS[surrounding]()
    with context:
        summary = measure(query, key, mask=mask)
        spread = measure(query, key, causal="bottom_right", quantities=["spread"])
    assert_right(summary, arrays, mask=mask.numpy())
    exact = measure(*arrays, causal="bottom_right", engine="reference")["spread"]
    assert_allclose(spread["spread"], exact, rtol=1e-12)
    assert query.grad is None
    assert query.requires_grad is wants_gradient


def test_reduced_products_are_not_trusted(arrays: tuple[np.ndarray, np.ndarray]) -> None:
    query, key = map(torch.from_numpy, arrays)
    assert "float32" in measure(query, key).engine
    with matmul_precision("medium"):
        assert "float64" in measure(query, key).engine


@pytest.mark.parametrize("setting", ["bf16", "tf32"])
def test_reduced_products_are_seen_in_newer_settings(
    setting: str, arrays: tuple[np.ndarray, np.ndarray]
) -> None:
    """The setting of one backend, which the older setting then refuses to describe."""
    products = torch.backends.mkldnn.matmul
    before = products.fp32_precision
    query, key = map(torch.from_numpy, arrays)
    torch.backends.mkldnn.matmul.fp32_precision = setting
    try:
        summary = measure(query, key)
    finally:
        torch.backends.mkldnn.matmul.fp32_precision = before
    assert "float64" in summary.engine
    assert "float32" in measure(query, key).engine


def test_made_under_inference_mode_measured_outside(rng: np.random.Generator) -> None:
    with torch.inference_mode():
        query = torch.from_numpy(rng.normal(size=(2, 9, 4)))
    assert_allclose(
        measure(query, query)["entropy_nats"],
        measure(query.numpy(), query.numpy())["entropy_nats"],
    )


def layouts(array: Any) -> dict[str, Any]:
    """The same values in memory that is strided, shared or not to be written."""
    if isinstance(array, np.ndarray):
        frozen = array.copy()
        frozen.flags.writeable = False
        backwards = np.ascontiguousarray(array[..., ::-1])[..., ::-1]
    else:
        frozen = array.expand(array.shape)
        backwards = array.transpose(-1, -2).contiguous().transpose(-1, -2)
    strided = (np.repeat if isinstance(array, np.ndarray) else torch.repeat_interleave)(
        array, 2, -2
    )[..., ::2, :]
    return {"read_only": frozen, "backwards": backwards, "strided": strided}


@pytest.mark.parametrize("layout", ["read_only", "backwards", "strided"])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_memory_of_any_layout(
    layout: str, library: str, arrays: tuple[np.ndarray, np.ndarray]
) -> None:
    given = arrays if library == "numpy" else tuple(map(torch.from_numpy, arrays))
    query, key = (layouts(array)[layout] for array in given)
    assert_right(measure(query, key, window=(9, 4)), arrays, window=(9, 4))
    assert_allclose(np.asarray(query), arrays[0], rtol=0)


def test_expanded_tensors(rng: np.random.Generator) -> None:
    one = torch.from_numpy(rng.normal(size=(1, 1, 9, 8)))
    key = one.expand(3, 4, 9, 8)
    query = torch.from_numpy(rng.normal(size=(3, 4, 9, 8)))
    mask = torch.ones(1, 1, 1, 9, dtype=torch.bool).expand(3, 4, 9, 9)
    summary = measure(query, key, mask=mask)
    assert_right(summary, (query.numpy(), np.broadcast_to(one.numpy(), (3, 4, 9, 8))))


def test_arguments_and_global_state_stay_as_they_were(
    arrays: tuple[np.ndarray, np.ndarray],
) -> None:
    query, key = (torch.from_numpy(array.copy()) for array in arrays)
    bias = torch.randn(20, 24)
    bias[3] = -torch.inf
    before = [tensor.clone() for tensor in (query, key, bias)]
    versions = [tensor._version for tensor in (query, key, bias)]
    state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    threads = torch.get_num_threads()
    error_state = np.geterr()
    measure(query, key, bias=bias, inputs=query, softcap=5.0)
    assert all(torch.equal(*pair) for pair in zip((query, key, bias), before, strict=True))
    assert [tensor._version for tensor in (query, key, bias)] == versions
    assert torch.equal(torch.get_rng_state(), state[0])
    assert np.array_equal(np.random.get_state()[1], state[1])  # noqa: NPY002
    assert torch.get_num_threads() == threads
    assert torch.is_grad_enabled()
    assert not torch.is_autocast_enabled("cpu")
    assert np.geterr() == error_state


def test_a_tracer_sees_the_operations_of_a_measurement(
    arrays: tuple[np.ndarray, np.ndarray],
) -> None:
    """The mode of the test above is really in force, so passing inside it means something."""
    query, key = map(torch.from_numpy, arrays)
    with Counting() as mode:
        measure(query, key)
    assert mode.seen > 0
