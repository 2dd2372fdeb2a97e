"""Expectations for normal entries: against samples of every entry, and the printed table."""

import json
import math
from importlib.resources import files

import numpy as np
import pytest

from rootdk._lib.errors import ArgumentError
from rootdk.lab._entries import Entries, Law
from rootdk.lab._row_law import QUANTITIES
from rootdk.lab._rows import RowMeans
from rootdk.lab.exact import SHARES, NormalRows, exact_spread, query_lengths

FIGURES = json.loads(
    files("rootdk.lab").joinpath("figures/seed-figures.json").read_text(encoding="utf-8")
)
NORMAL = Law.read("normal")
SIZES = [
    {},
    {"query_std": 0.7, "key_std": 1.3, "mean": 0.5},
    {"correlation": 0.4},
    {"query_std": 0.7, "key_std": 1.3, "mean": -0.5, "correlation": -0.6},
]


def rows(head_dim: int, keys: int = 12, scale: float = 1.0, **sizes: float) -> NormalRows:
    entries = Entries(law=NORMAL, **sizes)
    return NormalRows(entries=entries, head_dim=head_dim, keys=keys, scale=scale)


def of_two(head_dim: int, scale: float) -> float:
    """E Σw² of two keys: over ‖q‖², with the χ² density, and over the gap of the scores."""
    square = np.linspace(1e-9, head_dim + 30.0 * math.sqrt(head_dim), 4001)
    log_density = (head_dim / 2 - 1) * np.log(square) - square / 2
    density = np.exp(log_density - log_density.max())
    density /= density.sum()
    z = np.linspace(-8.5, 8.5, 801)
    gap = scale * np.sqrt(2.0 * square)[:, None] * z
    larger = 1.0 / (1.0 + np.exp(-gap))
    weight = np.exp(-0.5 * z**2)
    return float(density @ (larger**2 + (1 - larger) ** 2) @ weight / weight.sum())


@pytest.mark.parametrize("head_dim", [6, 64])
def test_two_keys_are_a_double_integral(head_dim: int) -> None:
    found = rows(head_dim, keys=2, scale=0.5)["squared_weights"]
    assert found.value == pytest.approx(of_two(head_dim, 0.5), abs=1e-6)


@pytest.mark.parametrize("sizes", SIZES, ids=lambda sizes: "-".join(sizes) or "standard")
@pytest.mark.parametrize("head_dim", [1, 5])
def test_entries_that_are_all_drawn_agree(
    head_dim: int, sizes: dict[str, float], rng: np.random.Generator
) -> None:
    law = rows(head_dim, keys=5, scale=0.5, **sizes)
    query, key = law.entries.pair(rng, 40_000, 5, head_dim)
    (drawn,) = RowMeans.of([np.einsum("qd,qkd->qk", query, key)], [0.5], SHARES)
    # there are more than a hundred comparisons
    shared = {"log_normaliser"} if sizes else set()  # it moves with what the keys share
    for name in set(QUANTITIES) - shared:
        assert abs(drawn[name].value - law[name].value) < 4.2 * drawn[name].standard_error, name
    for share in SHARES:
        chance = law.over(share / 100).value
        error = math.sqrt(max(chance * (1 - chance), 1 / drawn.rows) / drawn.rows)
        assert abs(drawn.over(share).value - chance) < 4.2 * error, share
    assert abs(drawn.spread.value - law.spread) < 4.2 * drawn.spread.standard_error


@pytest.mark.parametrize("row", FIGURES["width_sweep"]["rows"], ids=lambda row: f"{row[0]}")
def test_the_printed_table_lies_within_four_standard_errors(
    row: list[float], rng: np.random.Generator
) -> None:
    printed = dict(zip(FIGURES["width_sweep"]["columns"], row, strict=True))
    head_dim, queries = int(printed["head_dim"]), 4000
    rounding = 0.5 * 10.0 ** -FIGURES["width_sweep"]["digits"]
    for kind, scale in (("raw", 1.0), ("scaled", head_dim**-0.5)):
        law = rows(head_dim, scale=scale)
        weight, entropy = law["max_weight"].value, law["entropy_nats"].value
        # standard deviations between rows, which only widen the bound, from a sample of rows
        normals = rng.standard_normal((queries, 12))
        lengths = np.sqrt(rng.chisquare(head_dim, (queries, 1)))
        (drawn,) = RowMeans.of([normals * lengths], [scale])
        chance = law.over(0.9).value
        of_a_share = math.sqrt(max(chance * (1 - chance), 1 / queries) / queries)
        for column, exact, error in (
            (f"{kind}_score_std", law.spread, drawn.spread.standard_error),
            (
                f"mean_max_weight_{kind}",
                weight,
                drawn["max_weight"].standard_error,
            ),
            (
                f"mean_entropy_{kind}",
                entropy,
                drawn["entropy_nats"].standard_error,
            ),
            (f"{kind}_rows_over_90_pct", 100 * chance, 100 * of_a_share),
        ):
            assert abs(printed[column] - exact) < 4 * error + rounding, column


@pytest.mark.parametrize("head_dim", [1, 2, 4, 64, 4096])
@pytest.mark.parametrize("scaled", [False, True])
def test_every_integral_is_good_to_a_hundred_thousandth(head_dim: int, scaled: bool) -> None:
    law = rows(head_dim, scale=head_dim**-0.5 if scaled else 1.0)
    assert all(law[name].error < 1e-5 for name in QUANTITIES)
    assert all(law.over(share / 100).error < 1e-5 for share in SHARES)


def test_the_sign_of_the_scale_does_not_matter_and_its_size_does() -> None:
    assert rows(16, scale=-0.25)["max_weight"] == rows(16, scale=0.25)["max_weight"]
    twice, once = rows(16, scale=1 / 16), rows(16, scale=1 / 4)
    assert twice["entropy_nats"].value > once["entropy_nats"].value


def test_a_scale_of_zero_gives_uniform_weights() -> None:
    law = rows(16, keys=8, scale=0.0)
    assert law.spread == 0.0
    assert law["max_weight"].value == pytest.approx(1 / 8, abs=1e-11)
    assert law["entropy_nats"].value == pytest.approx(math.log(8), abs=1e-10)
    assert law.over(0.5).value == 0.0


def test_keys_that_are_their_query_do_not_differ() -> None:
    law = rows(16, keys=8, correlation=1.0)
    assert law["max_weight"].value == pytest.approx(1 / 8, abs=1e-9)
    assert law.spread == pytest.approx(math.sqrt(2 * 16))


@pytest.mark.parametrize("sizes", [{"query_std": 0.0, "mean": 0.5}, {"query_std": 0.0}])
def test_queries_that_are_all_equal(sizes: dict[str, float]) -> None:
    lengths, weights = query_lengths(Entries(law=NORMAL, **sizes), 16)
    assert lengths.tolist() == [4 * sizes.get("mean", 0.0)]
    assert weights.tolist() == [1.0]
    assert rows(16, **sizes)["max_weight"].error < 1e-5


@pytest.mark.parametrize("head_dim", [1, 3, 100, 10**6])
@pytest.mark.parametrize("mean", [0.0, 0.7])
def test_the_weights_of_the_lengths_sum_to_one(head_dim: int, mean: float) -> None:
    entries = Entries(law=NORMAL, mean=mean, query_std=2.0)
    lengths, weights = query_lengths(entries, head_dim)
    assert weights.sum() == pytest.approx(1.0, abs=1e-10)
    # E ‖q‖² = d (σ² + μ²)
    assert weights @ lengths**2 == pytest.approx(head_dim * (4 + mean**2), rel=1e-9)


@pytest.mark.parametrize("law", ["normal", "uniform", "rademacher", "student-t(9)"])
@pytest.mark.parametrize("sizes", SIZES, ids=lambda sizes: "-".join(sizes) or "standard")
def test_the_spread_of_any_law(law: str, sizes: dict[str, float], rng: np.random.Generator) -> None:
    entries = Entries(law=Law.read(law), **sizes)
    query, key = entries.pair(rng, 60_000, 1, 6)
    (drawn,) = RowMeans.of([np.einsum("qd,qkd->qk", query, key)], [1.0])
    found = exact_spread(entries, 6)
    assert abs(drawn.spread.value - found) < 4.2 * drawn.spread.standard_error


def test_correlated_entries_without_a_fourth_moment_have_no_spread() -> None:
    assert exact_spread(Entries(law=Law.read("student-t(3)")), 9) == 3.0
    assert exact_spread(Entries(law=Law.read("student-t(3)"), correlation=0.1), 9) == math.inf


def test_entries_that_are_not_normal_are_refused() -> None:
    with pytest.raises(ArgumentError, match="distribution is 'uniform'; expected normal"):
        NormalRows(entries=Entries(law=Law.read("uniform")), head_dim=4, keys=3, scale=1.0)


@pytest.mark.parametrize("keys", [0, 10**10])
def test_a_number_of_keys_out_of_bounds_is_refused(keys: int) -> None:
    with pytest.raises(ArgumentError, match=f"keys is {keys}; expected 1 to"):
        rows(4, keys=keys)
