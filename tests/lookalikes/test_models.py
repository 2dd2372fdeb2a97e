"""The designs themselves: each computes the plain formula that it says it computes."""

import pytest
import torch
from lookalikes.design import LookAlike
from lookalikes.registry import DESIGNS, FILES

NAMES = [look_alike.name for look_alike in DESIGNS]


@pytest.mark.parametrize("look_alike", DESIGNS, ids=NAMES)
@torch.no_grad()
def test_the_design_computes_its_formula(look_alike: LookAlike, seed: int) -> None:
    model, _ = look_alike.build(seed)
    got, expected = model.agreement()
    assert bool(expected.isfinite().all())
    bound = 100 * torch.finfo(model.precision).eps
    if model.precision == torch.bfloat16:
        bound = 8 * torch.finfo(torch.bfloat16).eps
    torch.testing.assert_close(got.double(), expected.double(), rtol=bound, atol=bound)


@pytest.mark.parametrize("look_alike", DESIGNS, ids=NAMES)
@torch.no_grad()
def test_the_model_runs(look_alike: LookAlike, seed: int) -> None:
    model, inputs = look_alike.build(seed)
    outputs = model(*inputs)
    for output in outputs if isinstance(outputs, tuple) else (outputs,):
        assert bool(output.isfinite().all())


def test_every_design_is_entered_once_under_its_own_name() -> None:
    assert len(set(NAMES)) == len(NAMES) >= 60
    assert {look_alike.design.__module__ for look_alike in DESIGNS} == {
        module.__name__ for module in FILES
    }
