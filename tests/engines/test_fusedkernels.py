"""A kernel is believed that does to a small call what it should, and to some rows of each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from rootdk.engines import fusedkernels
from rootdk.engines.call import UnfitError
from rootdk.engines.fusedkernels import Attended, SomeRows

torch = pytest.importorskip("torch")

KERNEL = "_scaled_dot_product_flash_attention_for_cpu"


@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
def test_a_kernel_that_returns_something_else_is_not_believed(
    masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    attend = fusedkernels.attend

    def doubled(*args: Any, **kwargs: Any) -> Attended:
        found = attend(*args, **kwargs)
        return Attended(2 * found.output, 2 * found.logsumexp)

    monkeypatch.setattr(fusedkernels, "attend", doubled)
    assert not fusedkernels._holds(KERNEL, "cpu", "float32", masked)
    monkeypatch.undo()
    assert fusedkernels._holds(KERNEL, "cpu", "float32", masked)
    assert not fusedkernels._holds("_no_such_kernel", "cpu", "float32", masked)


def exact(query: Any, key: Any, bias: Any, *, causal: bool, scale: float) -> Attended:
    scores = scale * query @ key.transpose(-1, -2)
    scores = scores if bias is None else scores + bias
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores).triu(1) > 0, -math.inf)
    output = torch.softmax(scores, -1) @ key
    return Attended(output, torch.logsumexp(scores, -1), scores.amax(-1))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("size", [1e-3, 1.0, 60.0])
def test_what_is_right_is_believed(
    causal: bool, biased: bool, dtype: str, size: float, rng: np.random.Generator
) -> None:
    query, key = (
        torch.from_numpy(rng.normal(size=(2, 3, 50, 16))).to(getattr(torch, dtype))
        for _ in range(2)
    )
    bias = torch.from_numpy(rng.normal(size=(2, 3, 1, 50))).expand(2, 3, 50, 50) if biased else None
    order: dict[str, Any] = {"causal": causal, "scale": size / 16.0}
    found = exact(query.double(), key.double(), bias, **order)
    norms = [float(torch.linalg.vector_norm(each.double(), dim=-1).amax()) for each in (query, key)]
    order["largest"] = (size / 16.0 * norms[0] * norms[1] + 4.0 * biased, norms[1])
    SomeRows(query, key, key, bias, **order).check(found)
    for at, name in enumerate(("output", "logsumexp", "largest score")):
        wrong = list(found)
        wrong[at] = found[at] + (1.0 + size) * (20.0 if dtype == "bfloat16" else 1e-3)
        with pytest.raises(UnfitError, match=f"the {name} that a kernel returned is off by"):
            SomeRows(query, key, key, bias, **order).check(Attended(*wrong))


def test_what_a_row_that_sees_nothing_has_is_no_matter(rng: np.random.Generator) -> None:
    query = torch.from_numpy(rng.normal(size=(1, 1, 9, 8)))
    bias = torch.zeros(1, 1, 9, 9)
    bias[..., 4, :] = -math.inf
    found = exact(query, query, bias, causal=False, scale=0.3)
    found.logsumexp[..., 4] = math.nan
    rows = SomeRows(query, query, query, bias, causal=False, scale=0.3, largest=(10.0, 10.0))
    rows.check(found)


@pytest.mark.parametrize("times", [2.0, -1.0])
def test_other_scales_are_held_against_the_same_rows(
    times: float, rng: np.random.Generator
) -> None:
    query = torch.from_numpy(rng.normal(size=(1, 2, 30, 8)))
    hidden = torch.where(torch.from_numpy(rng.random((1, 2, 30, 30))) < 0.3, -math.inf, 0.0)
    order: dict[str, Any] = {"causal": True, "scale": 0.3}
    rows = SomeRows(query, query, query, hidden, **order, largest=(10.0, 10.0))
    rows.check(exact(query, query, hidden, **order))
    found = exact(query, query, hidden, causal=True, scale=0.3 * times)
    rows.check(found, times=times)
    with pytest.raises(UnfitError, match="logsumexp"):
        rows.check(found)
