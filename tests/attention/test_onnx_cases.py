"""ONNX's own cases for its Attention operator: 93 of them, opsets 23 to 25.

They cover both layouts, shared heads, caches and their padding, causal order and windows,
softcap, half types, empty rows, NaN behind masks, and the scores of each stage. The cases
that ONNX derives from these (``_expanded``) hold the same numbers, and flex and linear
attention are other operators.
"""

import warnings

import numpy as np
import pytest
from attention.onnx_adapter import run
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.case.test_case import TestCase

from rootdk._lib.arrays import dtype_name, float_info, to_numpy

OTHERS = ("_expanded", "flex", "linear")


def collected() -> list[TestCase]:
    """The cases by name, with the same numbers in every run."""
    state = np.random.get_state()  # noqa: NPY002 - ONNX draws from the legacy generator
    np.random.seed(0)  # noqa: NPY002
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ONNX's own arithmetic, not ours
            cases = collect_testcases("Attention")
    finally:
        np.random.set_state(state)  # noqa: NPY002
    wanted = {
        case.name: case
        for case in cases
        if "attention" in case.name and not any(other in case.name for other in OTHERS)
    }
    return [wanted[name] for name in sorted(wanted)]


CASES = collected()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.removeprefix("test_"))
def test_onnx_case(case, record_property):
    ((inputs, expected),) = case.data_sets
    outputs = run(case.model, inputs)
    eps = float_info(inputs[0]).eps
    for array, wanted in zip(outputs, expected, strict=True):
        assert dtype_name(array) == dtype_name(wanted)
        # ONNX computes in the input's dtype and puts the root of the scale on both sides;
        # entries lie between 0 and 1, so scores stay below 3 and err by a few eps.
        np.testing.assert_allclose(
            to_numpy(array).astype(np.float64),
            to_numpy(wanted).astype(np.float64),
            rtol=4 * eps,
            atol=4 * eps,
        )
    record_property("onnx_attention_case", case.name)


def test_every_case_was_collected():
    assert len(CASES) == 93
    opsets = {case.model.opset_import[0].version for case in CASES}
    assert opsets == {23, 24, 25}


def test_a_case_can_fail():
    """The comparison above is not vacuous: another scale is another answer."""
    (case,) = (case for case in CASES if case.name == "test_attention_4d")
    ((inputs, (wanted,)),) = case.data_sets
    (scaled,) = (case for case in CASES if case.name == "test_attention_4d_scaled")
    (output,) = run(scaled.model, inputs)
    assert np.abs(output - wanted).max() > 100 * float_info(output).eps
