"""What a summary says of itself, and how summaries meet."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rootdk import Summary, measure
from rootdk._lib.errors import ArgumentError, RootdkError, ShapeError
from rootdk.stats import AbsentQuantityError
from rootdk.stats.quantity import quantities


def call(rng: np.random.Generator, *, batch: int = 2, queries: int = 6) -> tuple[np.ndarray, ...]:
    return rng.normal(size=(batch, 4, queries, 8)), rng.normal(size=(batch, 2, 9, 8))


def assert_equal_numbers(mine: Summary, theirs: Summary) -> None:
    assert mine.quantities == theirs.quantities
    for name in mine.quantities:
        if quantities()[name].per_head == "rows":
            for left, right in zip(mine[name], theirs[name], strict=True):
                assert_allclose(np.hstack(left), np.hstack(right), rtol=1e-12)
        else:
            assert_allclose(mine[name], theirs[name], rtol=1e-11, atol=1e-14, err_msg=name)


@pytest.mark.parametrize("engine", ["reference", "blocked"])
def test_batches_merge_to_the_whole(engine: str, rng: np.random.Generator) -> None:
    query, key = call(rng, batch=3)
    whole = measure(query, key, causal="top_left", engine=engine)
    parts = [measure(query[at], key[at], causal="top_left", engine=engine) for at in (2, 0, 1)]
    assert_equal_numbers(parts[0] + parts[1] + parts[2], whole)
    assert_equal_numbers(sum(parts, Summary.empty(4)), whole)


def test_blocks_of_rows_merge_to_the_whole(rng: np.random.Generator) -> None:
    query, key = call(rng, queries=11)
    mask = rng.random((2, 1, 11, 9)) < 0.7
    parts = [
        measure(query[:, :, rows], key, mask=mask[:, :, rows])
        for rows in (slice(0, 4), slice(4, 11))
    ]
    whole = measure(query, key, mask=mask)
    merged = parts[1] + parts[0]
    # The keys entered both calls, and count twice: their moments do not change by it.
    assert_allclose(merged["key_std"], whole["key_std"], rtol=1e-12)
    assert_equal_numbers(merged, whole)


def test_processes_merge_through_plain_values(rng: np.random.Generator) -> None:
    summaries = [measure(*call(rng)) for _ in range(2)]
    received = [json.loads(json.dumps(one.to_dict(), allow_nan=False)) for one in summaries]
    there = [Summary.from_dict(one) for one in received]
    assert there == summaries
    assert there[0] + there[1] == summaries[0] + summaries[1]
    assert pickle.loads(pickle.dumps(summaries[0])) == summaries[0]


def test_from_dict_refuses_what_it_does_not_know(rng: np.random.Generator) -> None:
    state = measure(*call(rng)).to_dict()
    with pytest.raises(ArgumentError, match="format is 2; expected 1"):
        Summary.from_dict({**state, "format": 2})
    with pytest.raises(ArgumentError, match=r"states is \['kurtosis'\]"):
        Summary.from_dict({**state, "states": {"kurtosis": {}}})


def test_other_heads_do_not_merge(rng: np.random.Generator) -> None:
    query, key = call(rng)
    with pytest.raises(ShapeError, match="summary of 4 heads with one of 2"):
        measure(query, key).merge(measure(query[:, :2], key))


def test_other_statistics_do_not_merge(rng: np.random.Generator) -> None:
    query, key = call(rng)
    spread = measure(query, key, quantities=["spread"])
    entropy = measure(query, key, quantities=["entropy_nats"])
    with pytest.raises(
        ShapeError, match="only the first has score_moments, only the second has row_entropy"
    ):
        spread + entropy


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"scale": 1.0}, "different scale: 1.0 and 0.5"),
        ({"score_dtype": np.float16}, "different score_dtype: 'float16' and 'float64'"),
    ],
)
def test_other_calls_do_not_merge(
    changed: dict[str, object], message: str, rng: np.random.Generator
) -> None:
    query, key = rng.normal(size=(4, 5, 4)), rng.normal(size=(4, 5, 4))
    with pytest.raises(ArgumentError, match=message):
        measure(query, key, **changed) + measure(query, key)


def test_adding_something_else_is_no_merge(rng: np.random.Generator) -> None:
    with pytest.raises(TypeError):
        measure(*call(rng)) + 1


def test_nothing_merges_with_any_statistics(rng: np.random.Generator) -> None:
    spread = measure(*call(rng), quantities=["spread"])
    assert Summary.empty(4) + spread == spread
    both = Summary.empty(4, ["spread"]) + Summary.empty(4, ["entropy_nats"])
    assert {"spread", "entropy_nats"} <= set(both.quantities)


def test_absent_quantities_say_why(rng: np.random.Generator) -> None:
    query, key = call(rng)
    summary = measure(query, key)
    assert summary.why_absent("spread") is None
    assert "spread" in summary
    assert summary.why_absent("value_std") == "value was not given to measure"
    assert summary.why_absent("input_rms") == "inputs was not given to measure"
    assert summary.why_absent("projection_gain") == "inputs was not given to measure"
    assert "value_std" not in summary
    assert "value_std" not in summary.quantities
    with pytest.raises(AbsentQuantityError, match="value_std is absent: value was not given"):
        summary["value_std"]
    few = measure(query, key, quantities=["spread"])
    assert few.why_absent("max_weight") == "it was not among the quantities asked for"
    with pytest.raises(AbsentQuantityError, match="did you mean entropy_nats"):
        summary["entropy"]
    with pytest.raises(AbsentQuantityError, match="there are effective_keys"):
        summary["xyzzy"]


def test_an_absent_quantity_is_a_key_error_and_ours() -> None:
    assert issubclass(AbsentQuantityError, (KeyError, RootdkError))
    assert issubclass(AbsentQuantityError, RootdkError)
    assert str(AbsentQuantityError("plain text")) == "plain text"


def test_absence_keeps_its_reason_through_a_merge(rng: np.random.Generator) -> None:
    merged = measure(*call(rng)) + measure(*call(rng))
    assert merged.why_absent("value_std") == "value was not given to measure"


def test_the_repr_shows_the_state(rng: np.random.Generator) -> None:
    ones = np.ones((1, 2, 3, 4))
    summary = measure(ones, ones, quantities=["spread", "max_weight"], engine="reference")
    assert repr(summary) == (
        "Summary(2 heads, 3 rows each, scale=0.5; reference (numpy, float64))\n"
        "  jacobian_max     0.2222\n"
        "  max_weight       0.3333\n"
        "  rows_over_50     0\n"
        "  rows_over_90     0\n"
        "  rows_over_99     0\n"
        "  score_mean       2\n"
        "  spread           0"
    )
    assert repr(Summary.empty(1)) == "Summary(1 head, nothing measured)"
    sampled = measure(*call(rng, queries=20), rows=5)
    assert "note: 5 of 20 query rows were measured" in repr(sampled)
    nothing = measure(ones, ones, mask=np.zeros((3, 3), dtype=bool), quantities=["spread"])
    assert repr(nothing).endswith("spread           nan")


def test_it_says_what_is_behind_it(rng: np.random.Generator) -> None:
    query, key = call(rng)
    summary = measure(query, key, causal="top_left")
    assert summary.rows.tolist() == [12] * 4
    assert summary.rows.dtype == np.int64
    assert summary.visible_scores.tolist() == [2 * (1 + 2 + 3 + 4 + 5 + 6)] * 4
    assert (summary.scale, summary.head_dim, summary.score_dtype) == (1 / np.sqrt(8), 8, "float64")
    assert summary.engine == "blocked (numpy, float64, 6×9)"
    assert summary.exact
    merged = summary + measure(query, key, causal="top_left", engine="reference")
    assert merged.engine == "blocked (numpy, float64, 6×9); reference (numpy, float64)"
    assert Summary.empty(2).engine == "nothing"


def test_it_cannot_be_changed_or_hashed(rng: np.random.Generator) -> None:
    summary = measure(*call(rng))
    with pytest.raises(AttributeError):
        summary.scale = 2.0  # type: ignore[misc]
    with pytest.raises(TypeError):
        hash(summary)
    assert summary != 3
