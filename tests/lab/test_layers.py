"""Mistakes planted in layers, and the routine: what is expected to be said of each."""

from __future__ import annotations

import pytest

from rootdk import lab
from rootdk._lib.errors import ArgumentError
from rootdk.lab._layer import INITS, layer, tokens
from rootdk.lab._mistakes import MISTAKES, right

torch = pytest.importorskip("torch")

# What each mistake is called by its rule, in the order of the figures file. Written here and
# nowhere in the experiment, which reports what check finds.
EXPECTED = (
    "RDK104",
    "RDK105",
    "RDK109",
    "RDK302",
    "RDK301",
    None,
    "RDK203",
    None,
    "RDK103",
    "RDK102",
    "RDK101",
    "RDK201",
    "RDK201",
)


@pytest.fixture(scope="module")
def mistakes() -> lab.Table:
    return lab.mistakes().table


def test_each_mistake_gets_the_code_of_its_rule(mistakes: lab.Table) -> None:
    assert mistakes["code"] == EXPECTED


@pytest.mark.slow
def test_identify_names_what_can_be_seen_in_a_function(mistakes: lab.Table) -> None:
    """1/d and twice 1/√d are one function; the size of entries is none of a function's."""
    result = lab.mistakes(identify=True)
    seen = {**dict.fromkeys(EXPECTED), **{code: code for code in EXPECTED if code}}
    seen |= {"RDK102": "RDK104", "RDK201": None, "RDK203": None}
    assert result.table["identify_code"] == tuple(seen[code] for code in EXPECTED)
    assert result.table["code"] == mistakes["code"]


def test_numbers_are_those_of_the_mistake(mistakes: lab.Table) -> None:
    """With head_dim 64, 8 heads and 24 tokens; a quarter either way is far beyond the noise."""
    spread = dict(zip(mistakes["code"], mistakes["spread"], strict=True))
    for code, expected in {
        "RDK101": 8.0,
        "RDK102": 1 / 8,
        "RDK103": 1 / 8**0.5,
        "RDK104": 1 / 8,
        "RDK105": (64 / 24) ** 0.5,
    }.items():
        assert spread[code] == pytest.approx(expected, rel=0.25), code


def test_no_code_is_typed_into_the_experiment() -> None:
    import inspect

    from rootdk.lab import _mistakes
    from rootdk.lab.experiments import mistakes as experiment

    assert all("RDK" not in inspect.getsource(module) for module in (_mistakes, experiment))


def test_only_the_entries_make_the_routine_right() -> None:
    result = lab.routine(inits=("unit", "linear", "kaiming"))
    layers = [row for row in result.table if row["entries"] != "numbers"]
    assert len(layers) == 12
    assert all(row["right_by_spread_and_entries"] for row in layers)
    assert all(row["right_by_check"] for row in layers)
    assert all(row["right_by_spread"] for row in layers if row["entries"] == "unit")
    assert sum(row["right_by_spread"] for row in layers) < len(layers)
    assert all(row["right_by_spread"] for row in result.table if row["entries"] == "numbers")


@pytest.mark.parametrize("init", INITS)
def test_a_projection_has_the_size_of_its_initialisation(init: str, seed: int) -> None:
    made = layer(right, width=256, num_heads=4, init=init, seed=seed)
    variance = {
        "unit": 1 / 256,
        "linear": 1 / (3 * 256),
        "normal-0.02": 0.02**2,
        "xavier": 1 / 256,
        "kaiming": 2 / 256,
    }[init]
    # 65536 entries: the variance is known to about 0.6 %, and four times that is allowed.
    assert made.query.weight.var().item() == pytest.approx(variance, rel=0.025)
    again = layer(right, width=256, num_heads=4, init=init, seed=seed)
    assert torch.equal(made.key.weight, again.key.weight)
    assert not torch.equal(made.key.weight, made.query.weight)


def test_building_a_layer_leaves_the_random_state_alone(seed: int) -> None:
    before = torch.get_rng_state()
    layer(right, width=16, num_heads=2, init="linear", seed=seed)
    tokens(batch=1, length=4, width=16, seed=seed)
    assert torch.equal(torch.get_rng_state(), before)


def test_tied_projections_and_shared_directions(seed: int) -> None:
    made = layer(right, width=16, num_heads=2, init="unit", seed=seed, tied=True)
    assert torch.equal(made.key.weight, made.query.weight)
    x = tokens(batch=2, length=50, width=16, seed=seed, directions=2)
    assert torch.linalg.matrix_rank(x.flatten(0, 1)).item() == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [({"init": "zeros"}, "expected one of unit"), ({"num_heads": 3}, "no multiple of num_heads")],
)
def test_a_layer_that_cannot_be_is_refused(options: dict[str, object], said: str) -> None:
    given = {"width": 16, "num_heads": 2, "init": "unit", "seed": 0, **options}
    with pytest.raises(ArgumentError, match=said):
        layer(right, **given)  # type: ignore[arg-type]


def test_mistakes_have_names_of_their_own() -> None:
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES) == len(EXPECTED)
