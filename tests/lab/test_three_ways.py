"""Replay, sample and exact answer one question; they agree within what each may be off by."""

import math

import pytest

from rootdk import lab
from rootdk._lib.errors import ArgumentError

QUERIES = 2000
RAISED = 4.5
"""Standard errors allowed: there are about a hundred comparisons."""


@pytest.fixture(scope="module")
def width_sweep() -> dict[lab.Method, lab.Table]:
    return {
        method: lab.run("width-sweep", method=method, widths=(4, 64), queries=QUERIES).table
        for method in lab.METHODS
    }


@pytest.fixture(scope="module")
def gradient() -> dict[lab.Method, lab.Table]:
    return {
        method: lab.run("gradient", method=method, widths=(4, 64), queries=QUERIES).table
        for method in lab.METHODS
    }


@pytest.mark.parametrize("drawn", ["replay", "sample"])
@pytest.mark.parametrize("row", [0, 1])
def test_the_width_sweep(
    drawn: lab.Method, row: int, width_sweep: dict[lab.Method, lab.Table]
) -> None:
    found = list(width_sweep[drawn])[row]
    errors, exact = list(width_sweep["sample"])[row], list(width_sweep["exact"])[row]
    assert exact["largest_error"] < 1e-5
    compared = 0
    for column, value in found.items():
        if column.endswith("_pct"):
            chance = exact[column] / 100.0
            error = 100.0 * math.sqrt(max(chance * (1.0 - chance), 1.0 / QUERIES) / QUERIES)
        elif (name := f"{column}_standard_error") in errors:
            error = errors[name]
            if drawn == "sample":
                assert error == found[name]
        else:
            continue
        compared += 1
        assert abs(value - exact[column]) < RAISED * error, column
    assert compared == 12


@pytest.mark.parametrize("drawn", ["replay", "sample"])
@pytest.mark.parametrize("row", [0, 1])
def test_the_gradient(drawn: lab.Method, row: int, gradient: dict[lab.Method, lab.Table]) -> None:
    found, exact = list(gradient[drawn])[row], list(gradient["exact"])[row]
    assert exact["largest_error"] < 1e-5
    for column, value in found.items():
        if column == "head_dim":
            continue
        if column.endswith("_pct"):
            chance = exact[column] / 100.0
            error = 100.0 * math.sqrt(max(chance * (1.0 - chance), 1.0 / QUERIES) / QUERIES)
        else:
            # of numbers between 0 and b with a mean m: at most √(m (b − m)) from row to row
            bound = 0.25 if "_max" in column else 1.0
            error = math.sqrt(exact[column] * (bound - exact[column]) / QUERIES)
        assert abs(value - exact[column]) < RAISED * error, column


def test_the_norm_says_how_well_it_is_known(gradient: dict[lab.Method, lab.Table]) -> None:
    for row in gradient["exact"]:
        for kind in ("raw", "scaled"):
            assert 0.0 < row[f"{kind}_jacobian_norm_standard_error"] < 2e-4
            # the norm of a mean of squares is no smaller, and that of two keys alone no larger
            assert row[f"{kind}_jacobian_norm"] < math.sqrt(row[f"{kind}_jacobian_trace"])


def test_a_row_of_very_many_keys_has_no_norm() -> None:
    (row,) = lab.run("gradient", method="exact", widths=(16,), keys=5000).table
    assert row["raw_jacobian_norm"] is None
    assert row["raw_jacobian_max"] > 0.0


@pytest.mark.parametrize("law", ["normal", "rademacher"])
def test_the_variance_of_a_score(law: str) -> None:
    table = lab.run("variance-sampled", method="sample", pairs=50_000, distribution=law).table
    for row in table:
        off = abs(row["variance_raw"] - row["head_dim"])
        assert off < RAISED * row["standard_error_raw"]


def test_the_exact_answer_is_for_normal_entries() -> None:
    with pytest.raises(ArgumentError, match="distribution is 'uniform'; expected normal"):
        lab.run("width-sweep", method="exact", distribution="uniform")
