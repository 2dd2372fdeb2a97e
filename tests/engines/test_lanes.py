"""Threads of our own: the same numbers as without them, and torch left as it was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

torch = pytest.importorskip("torch")

from rootdk import measure  # noqa: E402
from rootdk.engines import compiled, lanes, numpykernels, operands, plain  # noqa: E402
from rootdk.engines.flatrows import FlatRows  # noqa: E402

ORDERS: dict[str, dict[str, Any]] = {
    "none": {},
    "causal": {"causal": "top_left"},
    "window": {"causal": "bottom_right", "window": (40, 0)},
    "mask": {"mask": True},
}
RTOL = 3e-6
"""A few float32 roundings: sums over keys are taken in another order."""


@pytest.fixture
def threads() -> Iterator[Any]:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def many_blocks_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "fits", lambda call: False)
    monkeypatch.setattr(operands, "SMALL", 0)
    monkeypatch.setattr(lanes, "WORTH", 0)
    monkeypatch.setattr(plain, "TILE", 90 * 30)
    monkeypatch.setattr(plain, "FLAT_TILE", 90 * 30)


def call(rng: np.random.Generator, heads: int, order: str) -> tuple[list[Any], dict[str, Any]]:
    arrays = [rng.normal(size=(2, heads, 90, 8)).astype(np.float32) * 2.0 for _ in range(2)]
    arguments = dict(ORDERS[order])
    if order == "mask":
        mask = rng.random((heads, 90, 90)) < 0.7
        mask[:, 5] = False
        arguments["mask"] = torch.from_numpy(mask)
    return [torch.from_numpy(array) for array in arrays], arguments


def assert_counts_agree(mine: np.ndarray, theirs: np.ndarray) -> None:
    """But for one in a thousand, which roundings take over a border between two bins."""
    assert np.all(np.sum(np.abs(mine - theirs), axis=-1) <= 1e-3 * np.sum(theirs, axis=-1))
    assert_allclose(np.sum(mine, axis=-1), np.sum(theirs, axis=-1))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("heads", [1, 6])
def test_the_numbers_are_those_of_one_thread(
    heads: int, order: str, rng: np.random.Generator, threads: Any
) -> None:
    """Whole heads to a lane, and rows of one head."""
    arrays, arguments = call(rng, heads, order)
    threads(1)
    alone = measure(*arrays, **arguments, engine="blocked")
    threads(3)
    shared = measure(*arrays, **arguments, engine="blocked")
    assert torch.get_num_threads() == 3
    assert set(shared.quantities) == set(alone.quantities)
    for name in alone.quantities:
        mine, theirs = shared[name], alone[name]
        if name == "sample_rows":
            mine, theirs = (
                np.concatenate([row for head in of for row in head]) for of in (mine, theirs)
            )
        if name == "score_histogram":
            assert_counts_agree(mine, theirs)
            continue
        # The squares of what is left beside a weight near 1 differ by a rounding of 1.
        assert_allclose(mine, theirs, rtol=1e-4, atol=RTOL, err_msg=name)


@pytest.mark.parametrize("lanes_in_numpy", [True, False], ids=["base_2", "base_e"])
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("order", ORDERS)
def test_every_exponential_agrees_with_the_reference(
    order: str,
    number: int,
    lanes_in_numpy: bool,
    rng: np.random.Generator,
    threads: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(numpykernels, "_has_lanes", lambda _: lanes_in_numpy)
    monkeypatch.setattr(lanes, "WORTH", float("inf"))
    threads(number)
    arrays, arguments = call(rng, 3, order)
    oracle = measure(*arrays, **arguments, engine="reference")
    for given in (arrays, [array.numpy() for array in arrays]):
        found = measure(
            *given,
            **{name: np.asarray(one) if name == "mask" and given is not arrays else one
               for name, one in arguments.items()},
            engine="blocked",
        )  # fmt: skip
        for name in ("entropy_nats", "max_weight", "jacobian_norm", "max_score", "spread"):
            assert_allclose(found[name], oracle[name], rtol=RTOL, err_msg=name)
        assert_counts_agree(found["score_histogram"], oracle["score_histogram"])


def test_a_failure_leaves_torch_as_it_was(
    rng: np.random.Generator, threads: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    threads(2)
    arrays, arguments = call(rng, 6, "none")
    monkeypatch.setattr(FlatRows, "measure", fail)
    with pytest.raises(KeyboardInterrupt):
        measure(*arrays, **arguments, engine="blocked")
    assert torch.get_num_threads() == 2


def test_no_gradient_is_recorded_in_a_lane(rng: np.random.Generator, threads: Any) -> None:
    threads(2)
    arrays, _ = call(rng, 6, "none")
    wanting = [array.requires_grad_() for array in arrays]
    with torch.autocast("cpu", torch.bfloat16):
        found = measure(*wanting, engine="blocked")
    oracle = measure(*(array.detach() for array in arrays), engine="reference")
    assert_allclose(found["entropy_nats"], oracle["entropy_nats"], rtol=RTOL)
