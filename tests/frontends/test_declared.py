"""What a model's config declares of its initial weights, and what it does not."""

from dataclasses import dataclass, replace

import pytest
import torch
from lookalikes.declared import LargeInitialConfig, LargeInitialWeights

import rootdk
from rootdk.frontends._graph.declared import declared_initial_std
from rootdk.records import Diagnosis, Expected


@pytest.mark.parametrize("key", ["initializer_range", "init_std", "init_method_std"])
def test_a_standard_deviation_is_read_by_the_words_of_its_key(key: str) -> None:
    found = declared_initial_std([{"hidden_size": 64, key: 0.3}])
    assert found == Expected(value=0.3, where=f"{key} = 0.3", by="config")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("initializer_factor", 1.0),  # multiplies deviations of the code's own
        ("init_xavier_std", 1.0),
        ("embed_init_std", 1.0),
        ("initial_step_range", 1.0),
        ("initializer_range", None),
        ("initializer_range", True),
        ("initializer_range", 0.0),
        ("initializer_range", float("nan")),
    ],
)
def test_other_numbers_are_none(key: str, value: object) -> None:
    assert declared_initial_std([{key: value}]) is None


def test_the_nearest_config_that_declares_one_speaks() -> None:
    configs = [{"init_device": "cpu"}, {"init_std": 0.1}, {"init_std": 1.0}]
    found = declared_initial_std(configs)
    assert found is not None
    assert found.value == 0.1


@dataclass(frozen=True)
class Without:
    width: int = 64


def check(seed: int, config: object) -> Diagnosis:
    torch.manual_seed(seed)
    model = LargeInitialWeights()
    model.config = config
    return rootdk.check(model.eval(), *model.inputs())


def test_declared_initial_weights_make_large_entries_a_note_that_says_so(seed: int) -> None:
    (finding,) = check(seed, LargeInitialConfig()).findings
    assert (finding.code, finding.severity) == ("RDK201", "note")
    assert "the config declares it: initializer_range = 0.3" in str(finding.excuse)
    assert "input of width 64 0.3·√64 = 2.4 times" in str(finding.excuse)


def test_large_entries_that_are_not_what_is_declared_stay_a_warning(seed: int) -> None:
    for config in (Without(), replace(LargeInitialConfig(), initializer_range=0.02)):
        (finding,) = check(seed, config).findings
        assert (finding.code, finding.severity, finding.excuse) == ("RDK201", "warning", None)
