"""The entry point: what it takes, what it refuses, what it costs, what it promises."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rootdk import measure
from rootdk._lib.errors import ArgumentError, ArrayError, DtypeError, ShapeError
from rootdk.attention import visibility
from rootdk.engines import blocked, compiled, operands, plain, ragged
from rootdk.engines.plan import ENGINES
from rootdk.stats import AbsentQuantityError
from rootdk.stats.block import Block


@pytest.fixture
def arrays(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(size=(2, 4, 12, 8)), rng.normal(size=(2, 2, 15, 8))


def test_dimensions_may_be_absent(arrays: tuple[np.ndarray, np.ndarray]) -> None:
    query, key = arrays
    four = measure(query[:1], key[:1])["entropy_nats"]
    three = measure(query[0], key[0])["entropy_nats"]
    two = [measure(query[0, head], key[0, head // 2])["entropy_nats"] for head in range(4)]
    assert_allclose(three, four, rtol=1e-13)
    assert_allclose(np.hstack(two), four, rtol=1e-13)


def test_values_enter_no_score(arrays: tuple[np.ndarray, np.ndarray]) -> None:
    query, key = arrays
    value = np.full((2, 2, 15, 3), np.nan)
    with_value, without = measure(query, key, value), measure(query, key)
    assert_allclose(with_value["entropy_nats"], without["entropy_nats"], rtol=0)
    assert np.all(np.isnan(with_value["value_std"]))


@pytest.mark.parametrize(
    "segments", [[], [0], [0, 11], [1, 12], [0, 9, 4, 12], [0.0, 12.0], [[0, 12]], "ab"]
)
def test_segments_that_mean_nothing_are_refused(segments: object) -> None:
    query = np.ones((12, 8))
    with pytest.raises(ArgumentError, match=r"segments is .* from 0 to the number of queries"):
        measure(query, query, segments=segments)
    with pytest.raises(ArgumentError, match="12 queries and 15 keys"):
        measure(query, np.ones((15, 8)), segments=[0, 12])


def test_segments_are_calls_of_their_own(rng: np.random.Generator) -> None:
    query, key = rng.normal(size=(2, 2, 40, 8))
    ends = [0, 11, 12, 40]
    whole = measure(query, key, segments=ends, causal="top_left")
    assert whole == measure(query, key, segments=np.asarray(ends), causal="bottom_right")
    parts = [
        measure(query[:, start:stop], key[:, start:stop], causal="top_left")
        for start, stop in itertools.pairwise(ends)
    ]
    merged = parts[0] + parts[1] + parts[2]
    for name in ("spread", "row_spread", "entropy_nats", "max_score", "visible_scores"):
        assert_allclose(whole[name], merged[name], rtol=1e-12, err_msg=name)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"scale": np.nan}, ArgumentError, "scale is nan"),
        ({"softcap": 0.0}, ArgumentError, "softcap is 0.0"),
        ({"causal": True}, ArgumentError, "causal is True"),
        ({"window": (1,)}, ArgumentError, "window is"),
        ({"rows": 0}, ArgumentError, "rows is 0; expected a whole number from 1 up"),
        ({"rows": 2.5}, ArgumentError, "rows is 2.5"),
        ({"rows": True}, ArgumentError, "rows is True"),
        ({"engine": "fast"}, ArgumentError, "engine is 'fast'; expected one of linear, blocked"),
        ({"quantities": ["sprd"]}, AbsentQuantityError, "did you mean spread"),
        ({"mask": np.ones((12, 14), dtype=np.bool_)}, ShapeError, "expected 1 or 15"),
        ({"mask": np.ones((12, 15))}, DtypeError, "mask has dtype float64"),
        ({"bias": np.ones((12, 15), dtype=np.int64)}, DtypeError, "bias has dtype int64"),
        ({"inputs": [1.0]}, ArrayError, "inputs is a list"),
        ({"inputs": np.ones(3, dtype=np.int64)}, DtypeError, "inputs has dtype int64"),
        ({"score_dtype": "int8"}, DtypeError, "int8"),
    ],
)
def test_what_means_nothing_is_refused(
    changed: dict[str, object],
    error: type[Exception],
    message: str,
    arrays: tuple[np.ndarray, np.ndarray],
) -> None:
    with pytest.raises(error, match=message):
        measure(*arrays, **changed)


def test_arrays_of_two_libraries_are_refused(arrays: tuple[np.ndarray, np.ndarray]) -> None:
    import torch

    with pytest.raises(ArrayError, match=r"numpy and torch|torch and numpy"):
        measure(arrays[0], torch.from_numpy(arrays[1]))


def test_jax_arrays_are_measured_as_numpy(arrays: tuple[np.ndarray, np.ndarray]) -> None:
    jnp = pytest.importorskip("jax.numpy")
    rounded = [array.astype(np.float32) for array in arrays]
    theirs = measure(*map(jnp.asarray, rounded), causal="top_left")
    mine = measure(*rounded, causal="top_left")
    assert theirs.engine == mine.engine
    assert_allclose(theirs["entropy_nats"], mine["entropy_nats"], rtol=0)
    halves = [jnp.asarray(array, dtype=jnp.bfloat16) for array in arrays]
    assert measure(*halves).score_dtype == "bfloat16"


# -- which engine


def test_the_spread_alone_takes_no_score(
    arrays: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a block of scores was formed")

    monkeypatch.setattr(blocked, "run", refuse)
    monkeypatch.setattr(plain, "block_of", refuse)
    for arguments in ({}, {"causal": "bottom_right"}, {"window": (3, 0)}, {"softcap": 2.0}):
        summary = measure(*arrays, quantities=["spread", "implied_scale"], **arguments)
        assert summary.engine == "linear (numpy, float64)"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"quantities": ["entropy_nats"]}, "row_entropy cannot be had without forming scores"),
        ({"mask": np.arange(15) % 2 == 0}, "a mask hides keys between visible ones"),
        (
            {"mask": np.eye(12, 15, dtype=np.bool_)[::-1]},
            "a mask hides scores in no order that sums could follow",
        ),
        ({"bias": np.zeros((12, 15))}, "a bias may hide scores"),
    ],
)
def test_an_engine_says_why_it_cannot(
    changed: dict[str, object], why: str, arrays: tuple[np.ndarray, np.ndarray]
) -> None:
    arguments = {"quantities": ["spread"], **changed}
    with pytest.raises(ArgumentError, match=f"'linear' cannot measure this: {why}"):
        measure(*arrays, engine="linear", **arguments)
    assert measure(*arrays, **arguments).engine.startswith("blocked")


def test_nan_is_not_left_to_sums(arrays: tuple[np.ndarray, np.ndarray]) -> None:
    arrays[0][0, 0, 0, 0] = np.nan
    summary = measure(*arrays, quantities=["spread"])
    assert summary.engine.startswith("blocked")
    assert np.all(np.isfinite(summary["spread"]))


def test_a_quantity_pays_for_what_it_needs(
    arrays: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rootdk.engines import exponentials, fewrows

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the softmax was computed")

    monkeypatch.setattr(exponentials.Exponentials, "gaps", property(refuse))
    monkeypatch.setattr(fewrows.FewRows, "exponentials", refuse)
    names = ["spread", "row_spread", "min_score", "headroom", "score_histogram", "empty_rows"]
    summary = measure(*arrays, quantities=names, engine="blocked")
    assert set(names) <= set(summary.quantities)
    with pytest.raises(AssertionError, match="the softmax was computed"):
        measure(*arrays, quantities=["max_weight"], engine="blocked")


def test_the_engines_are_what_the_documentation_says() -> None:
    assert list(ENGINES) == ["linear", "blocked", "fused", "reference"]


# -- samples of rows


def test_a_sample_of_rows_is_fixed_and_says_so(rng: np.random.Generator) -> None:
    query, key = rng.normal(size=(2, 300, 8)), rng.normal(size=(2, 40, 8))
    first, again = (measure(query, key, rows=50) for _ in range(2))
    assert first == again
    assert first.rows.tolist() == [50, 50]
    assert not first.exact
    (note,) = first.notes
    assert note == (
        "50 of 300 query rows were measured: headroom is an upper bound, "
        "max_score is a lower bound, min_score is an upper bound"
    )
    whole = measure(query, key)
    assert whole.exact
    assert np.all(first["max_score"] <= whole["max_score"])
    assert np.all(first["headroom"] >= whole["headroom"])
    assert_allclose(first["key_std"], whole["key_std"])
    assert measure(query, key, rows=300).exact
    few = measure(query, key, rows=50, quantities=["spread"])
    assert few.notes == ("50 of 300 query rows were measured",)


@pytest.mark.parametrize("engine", ["linear", "blocked", "reference"])
def test_a_sample_of_rows_keeps_their_places(engine: str, rng: np.random.Generator) -> None:
    """Causal order and masks belong to the rows of the whole call."""
    query, key = rng.normal(size=(2, 90, 8)), rng.normal(size=(2, 70, 8))
    names = ["spread", "row_spread", "visible_scores", "empty_rows"]
    arguments = {"causal": "bottom_right", "window": (20, None), "rows": 31}
    rows = np.sort(np.random.default_rng(0x526F77).choice(90, size=31, replace=False))
    mask = np.tril(np.ones((90, 70), dtype=np.bool_), -20) & ~np.tril(
        np.ones((90, 70), dtype=np.bool_), -41
    )
    expected = measure(query[:, rows], key, mask=mask[rows], engine="reference")
    summary = measure(query, key, **arguments, quantities=names, engine=engine)
    for name in names:
        assert_allclose(summary[name], expected[name], rtol=1e-10, err_msg=name)


def test_means_of_a_sample_are_unbiased(rng: np.random.Generator) -> None:
    """Over many calls, the error of a sample averages out."""
    errors = []
    for _ in range(40):
        query, key = rng.normal(size=(1, 64, 8)), rng.normal(size=(1, 20, 8))
        names = ["entropy_nats"]
        sample = measure(query, key, rows=16, quantities=names)["entropy_nats"]
        errors.append(sample - measure(query, key, quantities=names)["entropy_nats"])
    deviation = np.std(errors) / np.sqrt(len(errors))
    assert abs(np.mean(errors)) < 4 * deviation


def test_the_standard_error_is_that_of_the_sample(rng: np.random.Generator) -> None:
    """Of samples of many rows, two in three means lie within it, and nearly all within three."""
    within = []
    for _ in range(200):
        query, key = rng.normal(size=(1, 400, 8)), rng.normal(size=(1, 20, 8))
        sample = measure(query, key, rows=20, quantities=["entropy_nats", "max_weight"])
        whole = measure(query, key, quantities=["entropy_nats", "max_weight"])
        for name in ("entropy_nats", "max_weight"):
            error = sample.standard_error(name)
            within.append(abs(sample[name] - whole[name]) / error)
            assert whole.standard_error(name) == [0.0]
    assert 0.58 < np.mean(np.asarray(within) < 1) < 0.78
    assert np.mean(np.asarray(within) < 3) > 0.96
    assert sample.standard_error("rows") is None
    with pytest.raises(AbsentQuantityError):
        sample.standard_error("spread")
    one = measure(query, key, rows=1, quantities=["entropy_nats"])
    assert np.isnan(one.standard_error("entropy_nats")).all()


# -- what is not finite


@pytest.mark.parametrize("engine", ["reference", "blocked"])
@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("softcap", [None, 3.0])
def test_what_is_not_finite_is_counted_and_left_out(
    engine: str, library: str, softcap: float | None, rng: np.random.Generator
) -> None:
    query, key = rng.normal(size=(2, 6, 4)), rng.normal(size=(2, 5, 4))
    clean = measure(query[:, 2:], key[:, 1:], softcap=softcap, engine="reference")
    query[:, 0, 1] = np.nan
    query[:, 1] = 0.0
    key[0, 0, 2] = np.inf
    key[1, 0, 2] = -np.inf
    mask = np.ones((6, 5), dtype=np.bool_)
    mask[2:, 0] = False  # the infinite key is out of sight of all but the first rows
    given = [query, key]
    if library == "torch":
        torch = pytest.importorskip("torch")
        given, mask = [torch.from_numpy(array) for array in given], torch.from_numpy(mask)
    summary = measure(*given, mask=mask, softcap=softcap, engine=engine)
    # Row 0 is NaN throughout; row 1 is 0·∞ at the infinite key, and 0 at the others.
    assert summary["nonfinite_scores"].tolist() == [6.0, 6.0]
    assert summary["nonfinite_rows"].tolist() == [2.0, 2.0]
    for name in ("entropy_nats", "max_weight", "jacobian_norm", "logsumexp"):
        assert_allclose(summary[name], clean[name], rtol=1e-12, err_msg=name)
    assert np.all(np.isfinite(summary["spread"]))
    assert summary["visible_scores"].tolist() == [26.0, 26.0]


@pytest.mark.parametrize("engine", ["reference", "blocked"])
def test_an_infinite_score_under_a_softcap_is_its_cap(engine: str) -> None:
    query, key = np.asarray([[1.0]]), np.asarray([[np.inf], [0.0]])
    summary = measure(query, key, scale=1.0, softcap=2.0, engine=engine)
    assert summary["nonfinite_scores"].tolist() == [1.0]
    assert summary["nonfinite_rows"].tolist() == [0.0]
    assert_allclose(summary["max_weight"], [1 / (1 + np.exp(-2.0))])


@pytest.mark.parametrize("engine", ["reference", "blocked"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_bias_that_is_not_finite_undoes_its_row(
    engine: str, bad: float, rng: np.random.Generator
) -> None:
    query, key = rng.normal(size=(4, 4)), rng.normal(size=(5, 4))
    bias = np.zeros((4, 5))
    bias[1, 2] = bad
    bias[2] = -np.inf
    summary = measure(query, key, bias=bias, engine=engine)
    assert summary["nonfinite_rows"].tolist() == [1.0]
    assert summary["nonfinite_scores"].tolist() == [0.0]
    assert summary["empty_rows"].tolist() == [1.0]
    hidden = measure(query[[0, 3]], key, engine="reference")
    assert_allclose(summary["entropy_nats"], hidden["entropy_nats"], rtol=1e-12)


def test_half_scores_may_overflow_where_rootdk_does_not() -> None:
    import torch

    query = torch.full((1, 4, 64), 200.0, dtype=torch.float16)
    summary = measure(query, query, scale=1.0)
    assert_allclose(summary["max_score"], [64 * 200.0**2])
    assert summary["nonfinite_scores"].tolist() == [0.0]
    assert summary["headroom"][0] < 1
    assert measure(query, query, scale=1.0, score_dtype=torch.float32)["headroom"][0] > 1e30


# -- blocks of real size, in float32


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_float32_blocks_of_real_size(
    library: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "fits", lambda call: False)
    query = rng.normal(size=(1, 2, 700, 64)).astype(np.float32)
    key = rng.normal(size=(1, 1, 900, 64)).astype(np.float32)
    oracle = measure(query, key, causal="bottom_right", engine="reference")
    given = (query, key)
    if library == "torch":
        torch = pytest.importorskip("torch")
        given = tuple(torch.from_numpy(array) for array in given)
    summary = measure(*given, causal="bottom_right")
    assert summary.engine == f"blocked ({library}, float32, 700×900)"
    for name in ("spread", "entropy_nats", "max_weight", "jacobian_norm", "effective_keys_2"):
        assert_allclose(summary[name], oracle[name], rtol=2e-6, err_msg=name)
    assert_allclose(summary["logsumexp"], oracle["logsumexp"], atol=2e-6)
    moved = np.abs(summary["score_histogram"] - oracle["score_histogram"]).sum()
    assert moved <= 1e-4 * oracle["visible_scores"].sum()


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_large_scores_are_computed_in_float64(library: str, rng: np.random.Generator) -> None:
    query = 100 * rng.normal(size=(300, 16)).astype(np.float32)
    key = 100 * rng.normal(size=(300, 16)).astype(np.float32)
    given = (query, key)
    if library == "torch":
        torch = pytest.importorskip("torch")
        given = tuple(torch.from_numpy(array) for array in given)
    summary = measure(*given)
    assert summary.engine == f"blocked ({library}, float64, 300×300)"
    oracle = measure(query, key, engine="reference")
    assert_allclose(summary["spread"], oracle["spread"], rtol=1e-12)
    assert_allclose(summary["entropy_nats"], oracle["entropy_nats"], atol=1e-12)


def test_the_bounds_can_be_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without centring, float32 loses the spread of entries with a mean of 300."""
    rng = np.random.default_rng(0)
    query, key = (300 + rng.normal(size=(200, 64)).astype(np.float32) for _ in range(2))
    exact = measure(query, key, engine="reference")["row_spread"]
    monkeypatch.setattr(operands, "SMALL", 0)
    monkeypatch.setattr(operands, "LARGEST_ERROR", np.inf)
    centred = measure(query, key, engine="blocked")["row_spread"]
    monkeypatch.setattr(operands.np, "isfinite", lambda x, **_: np.zeros_like(x, dtype=np.bool_))
    uncentred = measure(query, key, engine="blocked")
    monkeypatch.undo()
    assert_allclose(centred, exact, rtol=1e-6)
    assert not np.allclose(uncentred["row_spread"], exact, rtol=1e-6)


def test_memory_stays_at_a_few_blocks(rng: np.random.Generator) -> None:
    import tracemalloc

    query = rng.normal(size=(1, 4096, 16)).astype(np.float32)
    names = ["entropy_nats", "spread"]
    measure(query, query, quantities=names, engine="blocked")  # what is loaded is no part of it
    tracemalloc.start()
    measure(query, query, quantities=names, engine="blocked")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * 4 * plain.TILE < 4 * 4096**2, "not all scores at once"


@pytest.mark.parametrize("arguments", [{}, {"causal": "bottom_right"}, {"window": (100, 7)}])
def test_the_linear_engine_loses_no_digits(
    arguments: dict[str, Any], rng: np.random.Generator
) -> None:
    """Keys that jump from one far place to another, where sums of squares would cancel."""
    query = rng.normal(size=(600, 16)) + 1e4
    key = rng.normal(size=(600, 16)) + np.where(np.arange(600) < 300, 1e4, -1e4)[:, None]
    assert ragged.CHUNK < 300, "several chunks are merged"
    names = ["spread", "row_spread", "score_mean"]
    summary = measure(query, key, scale=0.25, quantities=names, **arguments, engine="linear")
    assert summary.engine.startswith("linear")
    visible = visibility(600, 600, **arguments, xp=np)
    scores = query.astype(np.longdouble) @ key.T.astype(np.longdouble) / 4
    deviations = [row[seen] - np.mean(row[seen]) for row, seen in zip(scores, visible, strict=True)]
    expected = {
        "spread": np.std(scores[visible]),
        "row_spread": np.sqrt(np.mean(np.concatenate(deviations) ** 2)),
        "score_mean": np.mean(scores[visible]),
    }
    for name in names:
        # A mean of scores of 4e8 that cancel is known to their rounding.
        atol = np.finfo(np.float64).eps * 4e8 if name == "score_mean" else 0.0
        exact = [float(expected[name])]
        assert_allclose(summary[name], exact, rtol=1e-12, atol=atol, err_msg=name)


def test_blocks_show_the_stages_to_new_statistics(rng: np.random.Generator) -> None:
    """A statistic that no engine knows reads scores, visibility and weights from the block."""
    from engines.bounds import call_of
    from engines.cases import Case

    from rootdk.engines import reference

    mask = rng.random((4, 6, 7)) < 0.6
    bias = rng.normal(size=(4, 6, 7))
    case = Case(
        query=rng.normal(size=(1, 4, 6, 8)) + 30.0,
        key=rng.normal(size=(1, 2, 7, 8)) + 30.0,
        arguments={"mask": mask, "bias": bias, "softcap": 20.0},
    )
    call = call_of(case)
    (theirs,) = reference.blocks(call)
    (mine,) = plain._blocks(call, operands.operands_of(call, 0, slice(0, 4)))
    assert isinstance(mine, Block)
    np.testing.assert_array_equal(mine.visible, theirs.visible)
    assert_allclose(
        np.where(mine.visible, mine.scores, 0), np.where(mine.visible, theirs.scores, 0)
    )
    assert_allclose(mine.weights, theirs.weights, atol=1e-12)
