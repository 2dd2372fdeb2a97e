"""The same right designs at a batch, a length or a head count of 1: sizes are no faults.

At such a size an axis has no extent, laws of the scale coincide, and masks hide nothing or
everything. What is silent at ordinary sizes stays silent.
"""

import pytest
import torch
from lookalikes.registry import DESIGNS, LookAlike

import rootdk

SIZES = [
    {"batch": 1},
    {"length": 1},
    {"heads": 1},
    {"length": 2},
    {"batch": 1, "length": 1},
    {"batch": 1, "heads": 1},
]
# With two tokens of dimension 64 as their own keys, most rows do choose one.
EXPECTED = {"NoProjections": {"RDK601"}}


def at_size(look_alike: LookAlike, size: dict[str, int], seed: int):
    """The design at another size, and inputs for it; None where it does not run there."""
    design = look_alike.design
    if not all(hasattr(design, name) for name in size):
        return None
    resized = type(design.__name__, (design,), {**size, "__module__": design.__module__})
    torch.manual_seed(seed)
    try:
        model = resized().train(look_alike.training)
        inputs = model.inputs()
        with torch.no_grad():
            model(*inputs)
    except (RuntimeError, IndexError, ValueError, AssertionError):
        return None
    return model, inputs


@pytest.mark.parametrize("look_alike", DESIGNS, ids=[d.design.__name__ for d in DESIGNS])
def test_a_size_of_one_is_no_fault(look_alike: LookAlike, seed: int) -> None:
    for size in SIZES:
        made = at_size(look_alike, size, seed)
        if made is None:
            continue
        model, inputs = made
        diagnosis = rootdk.check(model, *inputs)
        accepted = set(look_alike.known) | EXPECTED.get(look_alike.design.__name__, set())
        loud = [f for f in diagnosis.findings if f.severity != "note" and f.code not in accepted]
        assert loud == [], (size, loud)
