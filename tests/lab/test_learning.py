"""The tiny transformer: its task, that it learns, and that a run is a function of its seed."""

import numpy as np
import pytest

from rootdk import lab
from rootdk.lab._recall import Recall, train

torch = pytest.importorskip("torch")

SMALL = {"head_dims": (8,), "width": 16, "pairs": 4, "seeds": 2}


def test_every_question_has_one_answer(rng: np.random.Generator) -> None:
    keys, values, asked = Recall(pairs=20, sequences=8, questions=5).draw(rng)
    assert keys.shape == values.shape == (8, 20)
    assert asked.shape == (8, 5)
    assert all(len(set(row)) == 20 for row in keys.tolist()), "keys are all different"
    assert 0 <= asked.min() <= asked.max() < 20


def settings(**other: object) -> dict[str, object]:
    recall = Recall(vocabulary=8, values=4, pairs=4, questions=4, sequences=16)
    fixed = {"recall": recall, "scale": 8**-0.5, "head_dim": 8, "width": 16, "steps": 10}
    return {**fixed, "every": 10, "rate": 0.01, "optimizer": "adam", **other}


def test_it_learns_to_recall(seed: int) -> None:
    first, *_, last = train(np.random.SeedSequence(seed), **settings(steps=250))
    assert first["recalled"] < 0.6
    assert last["recalled"] > 0.9
    assert last["loss"] < first["loss"] / 3


def test_a_run_is_a_function_of_its_seed_whatever_the_threads(seed: int) -> None:
    before = torch.get_num_threads()
    runs = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        runs.append(train(np.random.SeedSequence(seed), **settings()))
        assert torch.get_num_threads() == threads, "left as it was found"
    torch.set_num_threads(before)
    assert repr(runs[0]) == repr(runs[1])
    assert train(np.random.SeedSequence(seed + 1), **settings()) != runs[0]


def test_it_leaves_the_generators_of_the_process_alone(seed: int) -> None:
    states = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    train(np.random.SeedSequence(seed), **settings())
    assert torch.equal(states[0], torch.get_rng_state())
    np.testing.assert_array_equal(states[1], np.random.get_state()[1])  # noqa: NPY002


def test_before_the_first_step_only_the_scale_differs() -> None:
    # the same data and weights: scores in proportion to the scale
    table = lab.run("learning", steps=1, every=1, scales=("none", "1/sqrt(d)"), **SMALL).table
    raw, scaled = (next(iter(table.where(scale=rule))) for rule in ("none", "1/sqrt(d)"))
    assert scaled["spread"] == pytest.approx(raw["spread"] / np.sqrt(8), rel=1e-5)


def test_rows_hold_mean_and_extremes_of_the_seeds() -> None:
    options = {"steps": 2, "every": 1, "scales": ("none",), **SMALL}
    both = lab.run("learning", **options).table
    assert both["step"] == (0, 1, 2)
    for row in both:
        assert row["loss_low"] < row["loss"] < row["loss_high"]
        assert row["loss"] == pytest.approx((row["loss_low"] + row["loss_high"]) / 2)
    one = lab.run("learning", **{**options, "seeds": 1}).table
    assert one["loss"][0] in (both["loss_low"][0], both["loss_high"][0])


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_the_answer_says_when_half_is_recalled(optimizer: str) -> None:
    result = lab.run("learning", steps=2, every=1, scales=("none",), optimizer=optimizer, **SMALL)
    assert "never" in result.answer


def test_a_run_that_diverges_leaves_gaps_and_no_error() -> None:
    result = lab.run(
        "learning", steps=4, every=1, scales=("none",), optimizer="sgd", rate=1e30, **SMALL
    )
    assert None in result.table["loss"]
    assert result.figure() is not None
