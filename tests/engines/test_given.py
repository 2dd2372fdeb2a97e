"""Scores that are given give what the reference engine gives of their query and key."""

import numpy as np
import pytest

import rootdk
from rootdk.engines import given as module
from rootdk.engines.given import measure_given

TOLD = {"scale": 0.5, "head_dim": 4, "score_dtype": "float64", "without_entries": "not known"}
# Rows that are shown, and their order, go by what stands for the query.
ELSEWHERE = frozenset({"sample_rows"})


@pytest.mark.parametrize("block", [2**20, 1])
def test_they_agree_with_the_reference(
    block: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BLOCK", block)
    query, key = rng.normal(size=(3, 7, 4)), rng.normal(size=(3, 11, 4))
    mask = rng.random((7, 11)) < 0.7
    mask[2] = False
    expected = rootdk.measure(query, key, scale=0.5, mask=mask, engine="reference")
    scores = 0.5 * query @ key.mT
    visible = np.broadcast_to(mask, scores.shape)
    hidden = np.where(visible, scores, np.nan)
    found = measure_given(hidden, visible, **TOLD, rows=7)
    assert found.exact
    for name in set(found.quantities) - ELSEWHERE:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12, err_msg=name)


def test_fewer_rows_than_there_are_is_a_sample(rng: np.random.Generator) -> None:
    scores = rng.normal(size=(2, 3, 5))
    found = measure_given(scores, scores == scores, **TOLD, rows=9)
    assert not found.exact
    assert "3 of 9 query rows were measured" in found.notes[0]


def test_no_rows_and_no_keys_give_nothing() -> None:
    for shape in ((2, 0, 5), (2, 3, 0)):
        found = measure_given(np.zeros(shape), np.ones(shape, bool), **TOLD, rows=shape[1])
        assert np.isnan(found["row_spread"]).all()
