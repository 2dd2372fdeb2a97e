"""The experiments on keys, initialisations and additive attention: both ways, and their claims."""

import math

import numpy as np
import pytest

from rootdk import lab
from rootdk._lib.errors import ArgumentError
from rootdk.lab.experiments.additive_against_dot_product import ADDITIVE, SCALED, UNSCALED, additive
from rootdk.lab.experiments.initialisation import INITS
from rootdk.lab.experiments.keys_and_context import FIXED

RAISED = 4.5
"""Standard errors allowed: there are about a hundred comparisons."""


# ------------------------------------------------------------------ keys and context


@pytest.fixture(scope="module")
def exact_keys() -> lab.Table:
    return lab.run("keys-and-context", method="exact", keys=(4, 64, 65536)).table


def test_a_sample_of_rows_agrees(exact_keys: lab.Table) -> None:
    sampled = lab.run("keys-and-context", method="sample", keys=(4, 64), scores=200_000).table
    exact = [row for row in exact_keys if row["keys"] in (4, 64)]
    for one, other in zip(exact, sampled, strict=True):
        assert (one["scale"], one["keys"]) == (other["scale"], other["keys"])
        for name in ("max_weight", "entropy_nats", "squared_weights"):
            error = other[f"{name}_standard_error"]
            assert abs(other[name] - one[name]) < RAISED * error, (name, other)


def test_it_says_how_well_it_integrates(exact_keys: lab.Table) -> None:
    assert max(exact_keys["largest_error"]) <= 1e-5


def test_more_keys_make_weights_smaller(exact_keys: lab.Table) -> None:
    weights = exact_keys.where(scale="1/sqrt(d)")["max_weight"]
    assert list(weights) == sorted(weights, reverse=True)


def test_beyond_the_condensing_spread_the_concentration_nears_its_limit() -> None:
    # Derrida's 1 − σ_c/σ, and 0 below; the way there is slow in ln n
    table = lab.run("keys-and-context", method="exact", keys=(100, 10**8), ratios=(0.4, 2.0)).table
    few, many = (table.where(scale=FIXED, keys=keys)["squared_weights"] for keys in (100, 10**8))
    assert many[0] < 1e-4 < few[0]
    assert 0.5 < many[1] < few[1]


def test_a_further_key_with_that_gap_holds_half(rng: np.random.Generator) -> None:
    # by hand: at one spread, a score of log Z beside the others has as much as all of them
    (row,) = lab.run(
        "keys-and-context", method="exact", keys=(1000,), scales=("none",), ratios=(0.3,)
    ).table.where(scale=FIXED)
    scores = row["spread"] * rng.standard_normal((2000, 1000))
    further = row["gap_for_half"] * row["spread"]
    share = 1.0 / (1.0 + np.exp(scores - further).sum(axis=1))
    # log Z of 1000 scores varies by about 0.05, so the mean over rows is a half to that squared
    assert share.mean() == pytest.approx(0.5, abs=0.005)


# ------------------------------------------------------------------ initialisation


def test_a_drawn_layer_has_the_computed_spread() -> None:
    options = {"widths": (64, 128), "tokens": 32, "heads": 60}
    exact = lab.run("initialisation", method="exact", **options).table
    drawn = lab.run("initialisation", method="sample", **options).table
    assert len(exact) == 2 * len(INITS)
    for one, other in zip(exact, drawn, strict=True):
        for name in ("spread_raw", "spread_intended"):
            error = other[f"{name}_standard_error"]
            assert abs(other[name] - one[name]) < RAISED * error, other


def test_the_spreads_that_are_known_by_hand() -> None:
    table = lab.run("initialisation", method="exact", widths=(1024,), head_dim=64).table
    intended = dict(zip(table["init"], table["spread_intended"], strict=True))
    assert intended["unit"] == pytest.approx(1.0)
    assert intended["nn.Linear"] == pytest.approx(1 / 3)
    assert intended["normal-0.02"] == pytest.approx(1024 * 0.02**2)
    assert intended["kaiming"] == pytest.approx(2.0)
    assert intended["t5"] == pytest.approx(1.0)
    assert intended["mup"] == pytest.approx(1 / 8)


def test_torch_initialises_as_is_said() -> None:
    torch = pytest.importorskip("torch")
    nn = torch.nn
    square, packed = torch.empty(256, 256), torch.empty(3 * 256, 256)
    drawn = {
        "nn.Linear": nn.Linear(256, 256).weight,
        "xavier": nn.init.xavier_uniform_(square),
        "xavier-packed": nn.init.xavier_uniform_(packed),
        "kaiming": nn.init.kaiming_normal_(torch.empty(256, 256)),
    }
    for name, weight in drawn.items():
        size, _ = INITS[name](256, 64)
        # 65536 entries know their size to 0.3 %, those of a uniform law better
        assert float(weight.detach().std()) == pytest.approx(size, rel=0.015), name


def test_a_width_that_is_no_multiple_is_refused() -> None:
    with pytest.raises(ArgumentError, match="width 100 is no multiple of head_dim, 64"):
        lab.run("initialisation", widths=(100,))


# ------------------------------------------------------------------ additive


def test_additive_scores_by_hand() -> None:
    query, key = np.array([[1.0, 0.0]]), np.array([[0.0, 2.0], [0.0, 0.0]])
    eye, out = np.eye(2), np.array([1.0, -1.0])
    expected = [[math.tanh(1) - math.tanh(2), math.tanh(1)]]
    np.testing.assert_allclose(additive(query, key, eye, eye, out), expected, rtol=1e-15)


def test_only_unscaled_dot_products_grow_with_the_width() -> None:
    table = lab.run("additive-against-dot-product", widths=(16, 1024), repeats=1).table
    spread = {name: table.where(attention=name)["spread"] for name in table["attention"]}
    assert spread[UNSCALED][1] == pytest.approx(32.0, rel=0.1)
    assert spread[SCALED][1] == pytest.approx(1.0, rel=0.1)
    # Var tanh of a standard normal is 0.394; its square root is what the width does not change
    assert spread[ADDITIVE][1] == pytest.approx(math.sqrt(0.394), rel=0.2)
