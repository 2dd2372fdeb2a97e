"""The cheap sampler has the law of the dear one."""

import math
import tracemalloc

import numpy as np
import pytest

from rootdk._lib.errors import ArgumentError
from rootdk.lab import sampler
from rootdk.lab._entries import Entries, Law
from rootdk.lab._rows import PER_ROW, Mean, RowMeans
from rootdk.lab.sampler import draw_scores

LAWS = ("normal", "rademacher", "uniform", "student-t(9)")
SIZES = [
    {},
    {"query_std": 0.7, "key_std": 1.3, "mean": 0.5},
    {"correlation": 0.4},
    {"query_std": 0.7, "key_std": 1.3, "mean": -0.5, "correlation": -0.6},
]
SHARES = (50, 90)


def apart(one: Mean, other: Mean) -> float:
    """How many standard errors lie between two means."""
    error = math.hypot(one.standard_error, other.standard_error)
    difference = abs(one.value - other.value)
    return difference / error if error else math.inf * difference if difference else 0.0


@pytest.mark.parametrize("sizes", SIZES, ids=lambda sizes: "-".join(sizes) or "standard")
@pytest.mark.parametrize("head_dim", [1, 7])
@pytest.mark.parametrize("law", LAWS)
def test_it_agrees_with_drawing_every_key(
    law: str, head_dim: int, sizes: dict[str, float], rng: np.random.Generator
) -> None:
    entries = Entries(law=Law.read(law), **sizes)
    replayed = entries.scores(rng, 20_000, 4, head_dim, batch=5000)
    drawn = draw_scores(rng, entries, head_dim=head_dim, queries=40_000, keys=4)
    (one,), (other,) = RowMeans.of([replayed], [0.5], SHARES), RowMeans.of(drawn, [0.5], SHARES)
    assert other.rows == 40_000
    # 4.5 standard errors: there are some 300 comparisons
    assert apart(one.spread, other.spread) < 4.5
    for name in PER_ROW:
        assert apart(one[name], other[name]) < 4.5, name
    for share in SHARES:
        assert apart(one.over(share), other.over(share)) < 4.5, share


@pytest.mark.parametrize("law", LAWS)
def test_scores_of_a_row_go_together_as_they_do(law: str, rng: np.random.Generator) -> None:
    # given the query, scores are independent; over queries, squares of two of them are not
    entries = Entries(law=Law.read(law), query_std=1.5, mean=0.5)
    rows = 60_000
    drawn = np.concatenate(list(draw_scores(rng, entries, head_dim=2, queries=rows, keys=2)))
    replayed = entries.scores(rng, rows, 2, 2, batch=20_000)
    for power in (1, 2):
        one, other = ((scores[:, 0] * scores[:, 1]) ** power for scores in (drawn, replayed))
        error = math.hypot(one.std(), other.std()) / math.sqrt(rows)
        assert abs(one.mean() - other.mean()) < 5.0 * error


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("most", [10, 60, 10_000])
def test_rows_come_in_bounded_blocks_and_all_of_them(
    law: str, most: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler, "MOST_AT_ONCE", most)
    entries = Entries(law=Law.read(law))
    blocks = list(draw_scores(rng, entries, head_dim=3, queries=50, keys=4))
    assert sum(map(len, blocks)) == 50
    assert all(block.shape[1] == 4 for block in blocks)
    assert all(block.size <= max(most, 4) for block in blocks)
    assert all(np.isfinite(block).all() for block in blocks)


@pytest.mark.parametrize("law", ["normal", "uniform"])
def test_memory_does_not_grow_with_the_rows(law: str, rng: np.random.Generator) -> None:
    entries = Entries(law=Law.read(law))
    tracemalloc.start()
    for _ in draw_scores(rng, entries, head_dim=64, queries=1000, keys=1024):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # a block, what becomes of it, and temporaries; every key would be 0.5 GB
    assert peak < 6 * 8 * sampler.MOST_AT_ONCE


def test_rademacher_scores_are_whole_and_of_one_parity(rng: np.random.Generator) -> None:
    entries = Entries(law=Law.read("rademacher"))
    (scores,) = draw_scores(rng, entries, head_dim=5, queries=2000, keys=3)
    assert set(np.unique(scores)) == {-5.0, -3.0, -1.0, 1.0, 3.0, 5.0}


def test_the_same_seed_gives_the_same_scores(seed: int) -> None:
    entries = Entries(law=Law.read("normal"))
    both = [
        next(draw_scores(np.random.default_rng(seed), entries, head_dim=8, queries=9, keys=2))
        for _ in range(2)
    ]
    assert both[0].tobytes() == both[1].tobytes()


@pytest.mark.parametrize("name", ["head_dim", "queries", "keys"])
def test_a_size_of_none_is_refused(name: str, rng: np.random.Generator) -> None:
    sizes = {"head_dim": 2, "queries": 2, "keys": 2, name: 0}
    with pytest.raises(ArgumentError, match=f"{name} is 0; expected a whole number from 1 up"):
        next(draw_scores(rng, Entries(law=Law.read("normal")), **sizes))
