"""Laws of entries and rules for the scale: moments, order of drawing, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rootdk._lib.errors import ArgumentError
from rootdk.lab._entries import Entries, Law
from rootdk.lab._scales import check_scale, scale_of

DRAWN = 40_000


@pytest.mark.parametrize("text", ["normal", "uniform", "rademacher", "student-t(5)"])
def test_a_law_has_mean_0_and_standard_deviation_1(text: str, rng: np.random.Generator) -> None:
    values = Law.read(text).draw(rng, (DRAWN,))
    # Four standard errors; that of the variance from the law's own fourth moment.
    assert abs(values.mean()) < 4 / math.sqrt(DRAWN)
    error = math.sqrt(max(np.mean(values**4) - 1.0, 1e-9) / DRAWN)
    assert abs(values.var() - 1.0) < 4 * error + 1e-3


def test_normal_entries_are_the_generators_own(seed: int) -> None:
    drawn = Law.read("normal").draw(np.random.default_rng(seed), (3, 4))
    assert np.array_equal(drawn, np.random.default_rng(seed).standard_normal((3, 4)))


@pytest.mark.parametrize(
    "text", ["gauss", "student-t", "student-t(2)", "student-t(x)", "student-t(1.1.1)", ""]
)
def test_no_law_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError, match="expected normal, uniform, rademacher"):
        Law.read(text)


def test_correlation_size_and_mean_are_what_is_asked(rng: np.random.Generator) -> None:
    entries = Entries(
        law=Law.read("normal"), query_std=2.0, key_std=0.5, mean=3.0, correlation=-0.6
    )
    query, key = entries.pair(rng, DRAWN, 1, 1)
    q, k = query[:, 0], key[:, 0, 0]
    close = 4 / math.sqrt(DRAWN)
    assert abs(q.std() / 2.0 - 1) < close
    assert abs(k.std() / 0.5 - 1) < close
    assert abs(q.mean() - 3) < 2.0 * close
    assert abs(k.mean() - 3) < 0.5 * close
    assert abs(np.corrcoef(q, k)[0, 1] + 0.6) < close


def test_scores_are_drawn_batch_by_batch_queries_first(seed: int) -> None:
    entries = Entries(law=Law.read("normal"))
    scores = entries.scores(np.random.default_rng(seed), 5, 3, 4, batch=2)
    rng = np.random.default_rng(seed)
    rows = []
    for queries in (2, 2, 1):
        query = rng.standard_normal((queries, 4))
        rows.append(np.sum(query[:, None] * rng.standard_normal((queries, 3, 4)), axis=-1))
    # Sums of four products, in whatever order.
    np.testing.assert_allclose(scores, np.concatenate(rows), rtol=0, atol=64 * 2**-52)


@pytest.mark.parametrize(
    ("rule", "scale"),
    [
        ("none", 1.0),
        ("1/sqrt(d)", 0.125),
        ("1/√d", 0.125),
        ("standard", 0.125),
        ("1/d", 1 / 64),
        ("twice", 1 / 64),
        ("d^-0.25", 64**-0.25),
        ("1/sqrt(d_model)", 1 / math.sqrt(256)),
        ("1/√d_model", 1 / math.sqrt(256)),
        ("1/sqrt(n)", 0.25),
        ("1/√(2*d)", 1 / math.sqrt(128)),
        ("0.5", 0.5),
    ],
)
def test_a_rule_gives_its_scale(rule: str, scale: float) -> None:
    found = scale_of(rule, head_dim=64, keys=16, num_heads=4)
    assert found == pytest.approx(scale, rel=4 * 2**-52)
    check_scale(rule)


@pytest.mark.parametrize("rule", ["", "root", "1/0", "d.real", "__import__('os')"])
def test_no_rule_is_refused(rule: str) -> None:
    with pytest.raises(ArgumentError, match=r"^scale is .*expected one of none, twice, standard"):
        check_scale(rule)
