import dataclasses

import numpy as np
import pytest

from rootdk.attention import Stage, Stages, attention


@pytest.fixture
def stages():
    one = np.ones((1, 4), dtype=np.float16)
    return attention(one, one, one, return_stages=True)


def test_stages_are_named_in_the_order_of_computation():
    assert [stage.name for stage in Stage] == [
        "RAW",
        "SCALED",
        "SOFTCAPPED",
        "BIASED",
        "WEIGHTS",
        "OUTPUT",
    ]


@pytest.mark.parametrize("stage", Stage)
def test_every_stage_has_its_array(stages, stage):
    assert stages.at(stage) is getattr(stages, stage.name.lower())


def test_the_record_shows_itself_and_does_not_change(stages):
    assert repr(stages) == "Stages(scores=(1, 1) float32, output=(1, 4) float16, scale=0.5)"
    with pytest.raises(dataclasses.FrozenInstanceError):
        stages.scale = 1.0
    assert isinstance(stages, Stages)
