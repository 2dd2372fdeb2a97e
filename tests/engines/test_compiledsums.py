"""The linear engine's sums in compiled code: the numbers of the library, for float32."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

pytest.importorskip("numba")

from rootdk import measure, spread_parts
from rootdk.engines import compiledsums, linear, ragged, workers

NAMES = ["spread", "row_spread", "score_mean", "visible_scores", "empty_rows"]
RTOL = 2e-6
"""What float32 products err by, to a few times what is estimated."""

ORDERS: dict[str, dict[str, Any]] = {
    "all": {},
    "causal": {"causal": "top_left"},
    "causal, more keys": {"causal": "bottom_right"},
    "window": {"causal": "bottom_right", "window": (190, 0)},
    "segments": {"segments": [0, 300, 301, 460]},
}


@pytest.fixture(autouse=True)
def loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    importlib.import_module("rootdk.engines._numba.rows")
    monkeypatch.setattr(linear, "SMALL", 0)


@pytest.fixture
def uses(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often each of the two is asked."""
    counts = {"scatters": 0, "causal": 0}
    for name in counts:
        work = getattr(compiledsums, name)

        def counted(*given: Any, name: str = name, work: Any = work) -> Any:
            counts[name] += 1
            return work(*given)

        monkeypatch.setattr(compiledsums, name, counted)
    return counts


def arrays(
    rng: np.random.Generator, depth: int, keys: int, mean: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Queries of four heads, and keys of two that are longer in some directions than others."""
    query = rng.normal(mean, 1.0, size=(2, 4, 460, depth))
    key = rng.normal(mean, 1.0, size=(2, 2, keys, depth)) * np.linspace(0.2, 2.0, depth)
    # Keys drift, so that chunks of them have other means.
    key += np.linspace(-1.0, 1.0, keys)[:, None]
    return query.astype(np.float32), key.astype(np.float32)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("depth", [1, 31, 64, 80])
@pytest.mark.parametrize("order", ORDERS)
def test_the_numbers_are_those_of_the_reference(
    order: str,
    depth: int,
    threads: int,
    uses: dict[str, int],
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers, "available", lambda: threads)
    monkeypatch.setattr(workers, "TEAM_WORTH", 0.0)
    monkeypatch.setattr(workers, "OWN_WORTH", 0.0)
    arguments = ORDERS[order]
    query, key = arrays(rng, depth, 600 if order == "causal, more keys" else 460)
    found = measure(query, key, quantities=NAMES, engine="linear", **arguments)
    # One entry that drifts within a window varies too little for float32.
    assert "float32" in found.engine or (order, depth) == ("window", 1)
    asked = "scatters" if order == "all" else "causal"
    assert uses[asked] or order in ("window", "segments")
    oracle = measure(query, key, quantities=NAMES, engine="reference", **arguments)
    for name in NAMES:
        atol = RTOL * float(np.max(oracle["spread"])) if name == "score_mean" else 0.0
        assert_allclose(found[name], oracle[name], rtol=RTOL, atol=atol, err_msg=name)


def test_causal_order_is_taken_in_one_go_and_followed_by_what_is_left(
    uses: dict[str, int], rng: np.random.Generator
) -> None:
    query, key = arrays(rng, 16, 460)
    assert 460 % ragged.CHUNK
    found = measure(query, key, quantities=["spread"], engine="linear", causal="top_left")
    assert uses["causal"] == 1
    assert found.engine == "linear (numpy and numba, float32 in float64 sums)"


def test_the_summary_says_what_ran(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, key = arrays(rng, 16, 460)
    for library in ("numba", "numpy"):
        found = measure(query, key, quantities=["spread"], engine="linear")
        assert found.engine == f"linear ({library}, float32 in float64 sums)"
        monkeypatch.setattr(compiledsums, "takes", lambda *_: False)
    nothing = measure(query[:, :, :0], key, quantities=["spread"], engine="linear")
    assert "numba" not in nothing.engine


@pytest.mark.parametrize("order", ["all", "causal"])
@pytest.mark.parametrize(
    "how", ["transposed heads", "packed", "turned bytes apart", "sampled rows", "read-only"]
)
def test_entries_may_lie_in_any_way(how: str, order: str, rng: np.random.Generator) -> None:
    query, key = arrays(rng, 24, 460)
    rows = None
    given = query, key
    if how == "transposed heads":
        given = tuple(
            np.ascontiguousarray(array.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)
            for array in given
        )
    elif how == "packed":
        given = tuple(np.repeat(array, 2, axis=2)[:, :, ::2] for array in given)
    elif how == "turned bytes apart":
        given = tuple(np.repeat(array, 2, axis=3)[..., ::2] for array in given)
    elif how == "sampled rows":
        rows = 300
    else:
        for array in given:
            array.flags.writeable = False
    arguments = {**ORDERS[order], "rows": rows}
    found = measure(*given, quantities=NAMES, engine="linear", **arguments)
    oracle = measure(query, key, quantities=NAMES, engine="reference", **arguments)
    for name in ("spread", "row_spread"):
        assert_allclose(found[name], oracle[name], rtol=RTOL, err_msg=name)


@pytest.mark.parametrize("order", ["all", "causal"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, 3e38])
def test_what_float32_cannot_hold_is_left_to_others(
    bad: float, order: str, rng: np.random.Generator
) -> None:
    query, key = arrays(rng, 8, 460)
    key[1, 1, 200, 3] = bad
    found = measure(query, key, quantities=["spread"], **ORDERS[order])
    oracle = measure(query, key, quantities=["spread"], engine="reference", **ORDERS[order])
    assert not found.engine.startswith("linear (numpy, float32")
    assert_allclose(found["spread"], oracle["spread"], rtol=RTOL)


@pytest.mark.parametrize("order", ["all", "causal"])
def test_entries_about_a_large_mean_keep_their_digits(order: str, rng: np.random.Generator) -> None:
    query, key = arrays(rng, 32, 460, mean=300.0)
    found = measure(query, key, quantities=NAMES, engine="linear", **ORDERS[order])
    oracle = measure(query, key, quantities=NAMES, engine="reference", **ORDERS[order])
    for name in ("spread", "row_spread"):
        assert_allclose(found[name], oracle[name], rtol=RTOL, err_msg=name)


def test_parts_of_the_spread_add_up(uses: dict[str, int], rng: np.random.Generator) -> None:
    query, key = arrays(rng, 32, 460, mean=1.0)
    parts = spread_parts(query, key)
    assert uses["scatters"] == 2
    spread = measure(query, key, quantities=["spread"], engine="reference")["spread"]
    assert_allclose(parts.spread, spread, rtol=RTOL)
