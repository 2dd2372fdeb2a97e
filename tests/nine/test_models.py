"""The models of the nine silent errors: each computes the formula that it says it computes."""

import pytest
import torch
from nine.case import Case, Silent
from nine.registry import CASES, of_error


@pytest.mark.parametrize("case", CASES, ids=[case.identity for case in CASES])
@torch.no_grad()
def test_the_model_computes_its_formula(case: Case, seed: int) -> None:
    model, inputs = case.build(seed)
    assert bool(model(*inputs).isfinite().all())
    got, expected = model.agreement()
    bound = 100 * torch.finfo(model.precision).eps
    torch.testing.assert_close(got, expected, rtol=bound, atol=bound)


def test_each_of_the_nine_has_cases() -> None:
    assert len(Silent) == 9
    assert all(len(of_error(error)) >= 3 for error in Silent)
    assert sum(len(of_error(error)) for error in Silent) == len(CASES)
