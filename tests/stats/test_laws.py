"""The merge laws, over every statistic there is and every quantity made of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import hypothesis.extra.numpy as npst
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rootdk import Summary
from rootdk._lib.errors import ShapeError
from rootdk.engines.reference import WholeBlock
from rootdk.stats import BlockStatistic, Statistic
from rootdk.stats.quantity import quantities
from rootdk.stats.statistic import statistics

EVERY = [pytest.param(kind, id=name) for name, kind in statistics().items()]
LAWS = settings(max_examples=25)
HEADS = 2

NUMBERS = st.floats(-60, 60, width=32) | st.sampled_from([0.0, 1.0, np.nan, np.inf, -np.inf])


@dataclass(frozen=True)
class Lot:
    """Some rows of two heads, from which every statistic can be filled."""

    scores: np.ndarray
    visible: np.ndarray
    query: np.ndarray

    def __getitem__(self, rows: slice) -> Lot:
        return Lot(self.scores[:, rows], self.visible[:, rows], self.query[:, rows])

    def heads(self, chosen: slice) -> Lot:
        return Lot(self.scores[chosen], self.visible[chosen], self.query[chosen])

    def block(self) -> WholeBlock:
        return WholeBlock(
            query=self.query,
            scores=self.scores,
            visible=self.visible,
            final=np.where(self.visible, self.scores, -np.inf),
        )


@st.composite
def lots(draw: st.DrawFn, *, keys: int = 4) -> Lot:
    """Rows, maybe none; scores, maybe not finite; keys, maybe invisible."""
    shape = (HEADS, draw(st.integers(0, 4)), keys)
    scores = draw(npst.arrays(np.float64, shape, elements=NUMBERS))
    visible = draw(npst.arrays(np.bool_, shape))
    query = draw(npst.arrays(np.float64, (*shape[:2], 2), elements=st.floats(-2, 2, width=16)))
    return Lot(scores, visible, query)


def filled(kind: type[Statistic], lot: Lot) -> Statistic:
    """The state of a lot: of its rows, or of its finite scores as if they were entries."""
    if issubclass(kind, BlockStatistic):
        with np.errstate(all="ignore"):
            return kind.of(lot.block())
    moments = [_moments(head[np.isfinite(head)]) for head in lot.scores]
    count, mean, m2 = (np.asarray(numbers) for numbers in zip(*moments, strict=True))
    return kind(count=count, mean=mean, m2=m2)


def _moments(entries: np.ndarray) -> tuple[int, float, float]:
    if not len(entries):
        return 0, 0.0, 0.0
    return len(entries), float(np.mean(entries)), float(np.var(entries)) * len(entries)


def assert_same(mine: Statistic, theirs: Statistic) -> None:
    """Counts agree exactly; numbers to the rounding of a few float64 sums."""
    assert type(mine) is type(theirs)
    state, other = mine.to_dict(), theirs.to_dict()
    assert state.keys() == other.keys()
    for field in state:
        left, right = getattr(mine, field), getattr(theirs, field)
        if left.dtype.kind == "i":
            np.testing.assert_array_equal(left, right, err_msg=field)
        else:
            assert_allclose(left, right, rtol=1e-12, atol=1e-10, err_msg=field)


@pytest.mark.parametrize("kind", EVERY)
@LAWS
@given(lot=lots())
def test_nothing_is_the_identity(kind: type[Statistic], lot: Lot) -> None:
    state, nothing = filled(kind, lot), kind.empty(HEADS)
    assert state.merge(nothing) == state
    assert nothing.merge(state) == state
    assert nothing.merge(nothing) == nothing


@pytest.mark.parametrize("kind", EVERY)
@LAWS
@given(a=lots(), b=lots(), c=lots())
def test_merging_is_commutative_and_associative(
    kind: type[Statistic], a: Lot, b: Lot, c: Lot
) -> None:
    first, second, third = (filled(kind, lot) for lot in (a, b, c))
    assert_same(first.merge(second), second.merge(first))
    assert_same(first.merge(second).merge(third), first.merge(second.merge(third)))


@pytest.mark.parametrize("kind", EVERY)
@LAWS
@given(lot=lots(), cut=st.integers(0, 4))
def test_two_lots_are_the_merge_of_each(kind: type[Statistic], lot: Lot, cut: int) -> None:
    assert_same(filled(kind, lot[:cut]).merge(filled(kind, lot[cut:])), filled(kind, lot))


@pytest.mark.parametrize("kind", EVERY)
@LAWS
@given(a=lots(), b=lots())
def test_updating_is_merging(kind: type[Statistic], a: Lot, b: Lot) -> None:
    if issubclass(kind, BlockStatistic):
        with np.errstate(all="ignore"):
            updated = kind.empty(HEADS).update(a.block()).update(b.block())
        assert_same(updated, filled(kind, a).merge(filled(kind, b)))


@pytest.mark.parametrize("kind", EVERY)
@LAWS
@given(lot=lots())
def test_heads_are_independent_and_states_survive_json(kind: type[Statistic], lot: Lot) -> None:
    state = filled(kind, lot)
    heads = [filled(kind, lot.heads(slice(at, at + 1))) for at in range(HEADS)]
    assert_same(kind.stack(heads), state)
    text = json.dumps(state.to_dict(), allow_nan=False)
    assert kind.from_dict(json.loads(text)) == state


@pytest.mark.parametrize("kind", EVERY)
def test_other_heads_and_other_statistics_do_not_merge(kind: type[Statistic]) -> None:
    with pytest.raises(ShapeError, match=f"{kind.name} of 2 heads with {kind.name} of 3 heads"):
        kind.empty(2).merge(kind.empty(3))
    other = next(one for one in statistics().values() if one is not kind)
    with pytest.raises(ShapeError, match=f"{kind.name} of 2 heads with {other.name} of 2 heads"):
        kind.empty(2).merge(other.empty(2))  # type: ignore[arg-type]


def summary_of(lot: Lot) -> Summary:
    return Summary(
        num_heads=HEADS,
        states={name: filled(kind, lot) for name, kind in statistics().items()},
        scale=0.5,
        head_dim=4,
        score_dtype="float32",
        engines=("by hand",),
    )


def assert_same_number(mine: Any, theirs: Any, name: str) -> None:
    if quantities()[name].per_head == "rows":
        assert [len(rows) for rows in mine] == [len(rows) for rows in theirs]
        mine, theirs = (np.hstack([*sum(rows, ()), [0.0]]) for rows in (mine, theirs))
    assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9, err_msg=name)


@LAWS
@given(lot=lots(), cut=st.integers(0, 4))
def test_every_quantity_of_a_merge_is_that_of_all_rows(lot: Lot, cut: int) -> None:
    whole, parts = summary_of(lot), (summary_of(lot[:cut]), summary_of(lot[cut:]))
    for merged in (parts[0] + parts[1], parts[1].merge(parts[0])):
        for name in whole.quantities:
            # What entries that hardly vary imply is all rounding.
            if name != "implied_scale":
                assert_same_number(merged[name], whole[name], name)


@LAWS
@given(a=lots(), b=lots(), c=lots())
def test_summaries_obey_the_laws(a: Lot, b: Lot, c: Lot) -> None:
    first, second, third = summary_of(a), summary_of(b), summary_of(c)
    nothing = Summary.empty(HEADS)
    assert first + nothing == first == nothing + first
    for left, right in (
        (first + second, second + first),
        ((first + second) + third, first + (second + third)),
    ):
        for name, state in left.states.items():
            assert_same(state, right.states[name])


def test_the_laws_can_fail() -> None:
    """A merge that forgets one side does not pass for one that is commutative."""
    rng = np.random.default_rng(0)
    shape = (HEADS, 3, 4)
    lot = Lot(rng.normal(size=shape), np.full(shape, True), rng.normal(size=(HEADS, 3, 2)))
    lot.scores[:, 0, 0] = np.nan
    for kind in statistics().values():
        state = filled(kind, lot)
        with pytest.raises(AssertionError):
            assert_same(state, kind.empty(HEADS))
