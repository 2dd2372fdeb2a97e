"""What a function does to whoever calls it: raise, hang, return something else."""

import random
import threading
import time

import numpy as np
import pytest
from identify import functions

from rootdk import identify
from rootdk._lib.errors import ArgumentError, TargetError
from rootdk.identify._limit import OutOfTime, within


def test_a_function_that_raises() -> None:
    sheet = identify(functions.refuses)
    assert sheet.behaviour.call.outcome == "raised"
    assert sheet.behaviour.call.error == "RuntimeError: no kernel for this"
    assert sheet.formula is None
    assert sheet.skipped[0].code == "probe plain call"


def test_a_function_that_returns_no_array() -> None:
    assert identify(functions.returns_none).behaviour.call.outcome == "not-an-array"


def test_a_function_that_returns_another_shape() -> None:
    call = identify(functions.returns_another_shape).behaviour.call
    assert call.outcome == "wrong-shape"
    assert "(2, 3, 5, 44)" in call.error


@pytest.mark.parametrize(
    ("function", "outcome", "says"),
    [
        (functions.returns_a_list, "not-an-array", "it returned a list"),
        (functions.returns_nan, "non-finite", "it returned NaN or infinity"),
        (functions.returns_text, "not-an-array", "it returned numbers of dtype <U1"),
        (functions.returns_complex, "not-an-array", "it returned numbers of dtype complex"),
        (functions.leaves, "raised", "SystemExit: 3"),
        (functions.calls_itself, "raised", "RecursionError: maximum recursion depth exceeded"),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_whatever_comes_back_is_said_in_one_line(function, outcome, says, caplog) -> None:
    sheet = identify(function)
    assert sheet.behaviour.call.outcome == outcome
    assert sheet.findings == ()
    assert f"the plain call: {says}" in str(sheet).splitlines()[0]
    assert caplog.records == []


def test_a_function_that_changes_its_inputs_is_measured_and_said_to() -> None:
    sheet = identify(functions.scales_in_place)
    assert sheet.formula == "softmax(query·keyᵀ/√head_dim) · value"
    assert "it changes its own inputs in place: query" in sheet.remarks
    assert not any("in place" in remark for remark in identify(functions.standard).remarks)


def test_a_batch_of_none() -> None:
    assert identify(functions.standard)["empty_batch"] == "an output of the right shape"
    assert identify(functions.refuses_no_samples)["empty_batch"] == "refused"
    assert identify(functions.refuses_no_samples).findings == ()


def test_an_output_in_another_layout_is_recognised() -> None:
    sheet = identify(functions.sequence_first_output)
    assert sheet.formula == "softmax(query·keyᵀ/√head_dim) · value"
    assert sheet.recipe.output_layout == "bshd"


def test_a_function_that_never_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rootdk.identify.subject.FIRST_CALL_SECONDS", 0.1)
    sheet = identify(functions.never_returns, seconds=0.1)
    assert sheet.behaviour.call.outcome == "hung"


def test_a_function_that_is_never_the_same() -> None:
    sheet = identify(functions.at_random)
    assert sheet.behaviour.deterministic is False
    assert sheet.formula is None


@pytest.mark.parametrize("elsewhere", [False, True], ids=["main-thread", "another-thread"])
def test_the_time_limit(elsewhere: bool) -> None:
    found: list[BaseException] = []

    def tried() -> None:
        try:
            within(0.05, lambda: time.sleep(5.0) if False else functions.never_returns(0, 0, 0))
        except OutOfTime as error:
            found.append(error)

    if elsewhere:
        worker = threading.Thread(target=tried)
        worker.start()
        worker.join(5.0)
    else:
        tried()
    assert len(found) == 1


def test_what_a_call_raises_comes_through_the_time_limit() -> None:
    with pytest.raises(RuntimeError, match="no kernel"):
        within(1.0, lambda: functions.refuses(0, 0, 0))


def test_a_fault_inside_a_probe_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    from rootdk.identify.probes import probes

    one = next(probe for probe in probes() if probe.name == "kv heads")
    monkeypatch.setattr(type(one), "run", lambda self, bench: 1 / 0)
    sheet = identify(functions.standard)
    (skip,) = [skip for skip in sheet.skipped if skip.code == "probe kv heads"]
    assert skip.why == "a fault of rootdk: ZeroDivisionError: division by zero"
    assert sheet.formula == "softmax(query·keyᵀ/√head_dim) · value"


def test_arguments_that_mean_nothing() -> None:
    with pytest.raises(ArgumentError, match="layout is 'bhqd'"):
        identify(functions.standard, layout="bhqd")
    with pytest.raises(ArgumentError, match="expect names is 'scales'"):
        identify(functions.standard, expect={"scales": 1})
    with pytest.raises(ArgumentError, match="arguments names 'tau'"):
        identify(functions.standard, arguments={"tau": "temperature"})
    with pytest.raises(ArgumentError, match=r"arguments\['mask'\] is 'veil'"):
        identify(functions.masked, arguments={"mask": "veil"})
    with pytest.raises(TargetError, match="takes x; expected query, key and value"):
        identify(lambda x: x)
    with pytest.raises(TargetError, match="the function is a int"):
        identify(3)
    with pytest.raises(ArgumentError, match="requires 'colour'"):
        identify(lambda query, key, value, colour: value)


def test_arguments_by_another_name() -> None:
    def odd(k, v, q, veil=None, warmth=None):
        scale = q.shape[-1] ** -0.5 if warmth is None else 1.0 / warmth
        scores = functions.products(q, k) * scale
        return functions.softmax(scores if veil is None else np.where(veil, scores, -1e30)) @ v

    sheet = identify(odd, arguments={"veil": "mask", "warmth": "temperature"})
    assert sheet.formula == "softmax(query·keyᵀ/√head_dim) · value"
    assert sheet.behaviour.mask.argument == "veil"
    assert sheet.behaviour.arguments["warmth"].effect == "as-asked"


def test_other_values_of_shapes_that_had_worked() -> None:
    def particular(query, key, value):
        if np.abs(query).max() > 50.0:
            raise ValueError("too large for me")
        return functions.standard(query, key, value)

    refusals = identify(particular).behaviour.refusals
    assert any(one.same_shapes_worked and "too large" in one.error for one in refusals)
    assert "the same shapes had worked with other values" in str(identify(particular))


def test_a_torch_module() -> None:
    torch = pytest.importorskip("torch")

    class Attention(torch.nn.Module):
        def forward(self, query, key, value, attn_mask=None):
            scores = query @ key.mT / query.shape[-1] ** 0.5
            if attn_mask is not None:
                scores = scores.masked_fill(~attn_mask, -1e30)
            return scores.softmax(-1) @ value

    sheet = identify(Attention())
    assert sheet.formula == "softmax(query·keyᵀ/√head_dim) · value"
    assert sheet.behaviour.mask.boolean == "true_attends"


def test_a_fixed_argument() -> None:
    def moded(query, key, value, mode):
        return functions.unscaled(query, key, value) if mode == "raw" else value

    sheet = identify(moded, arguments={"mode": ("fixed", "raw")})
    assert sheet.formula == "softmax(query·keyᵀ) · value"


def test_nothing_global_is_left_changed() -> None:
    before = random.getstate(), np.geterr()
    identify(functions.standard)
    assert (random.getstate(), np.geterr()) == before
