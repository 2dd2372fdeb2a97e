"""Run an ONNX model once, operation by operation, and turn what was seen into records."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import onnx
import onnxruntime

import rootdk
from rootdk._lib.arrays import quiet
from rootdk._lib.errors import TargetError
from rootdk.frontends._base import Trace
from rootdk.frontends._onnx.attending import OnnxAttending
from rootdk.frontends._onnx.configuration import configuration_of
from rootdk.frontends._onnx.inputs import (
    GUESSES,
    Guess,
    given_inputs,
    has_open_sizes,
    made_inputs,
)
from rootdk.frontends._onnx.interpret import Interpreter
from rootdk.frontends._onnx.loading import Loaded, load
from rootdk.frontends._onnx.recorder import Recorder
from rootdk.frontends._onnx.state import graph_state
from rootdk.frontends._sites.sites import build_sites, faults_of
from rootdk.records import AttentionSite, Environment

__all__ = ["run"]

_BUDGET = 256 << 20


def run(
    model: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    rows: int,
    seed: int | None,
    statistics: bool,
    progress: Callable[[str], None] | None,
) -> Trace:
    """Run a model once; see ``rootdk.frontends.trace``."""
    loaded = load(model)
    given = given_inputs(loaded, args, kwargs)
    state, reason = graph_state(loaded)

    def once(guess: Guess) -> tuple[_Pass, tuple[str, ...]]:
        inputs, said = made_inputs(loaded, given, guess, 0 if seed is None else seed)
        recorder = Recorder(_BUDGET)
        attending = OnnxAttending(
            recorder,
            rows=rows,
            seed=0 if seed is None else seed,
            statistics=statistics,
            training_of=lambda: False,
            progress=progress,
        )
        recorder.listener = attending
        interpreter = Interpreter(loaded, recorder)
        with quiet():
            interpreter.run(inputs)
        return _Pass(recorder, attending, interpreter), said

    made, remarks = _first_that_runs(once, open_=has_open_sizes(loaded, given))
    recorder, attending, interpreter = made
    faults = faults_of(attending, recorder)
    known = configuration_of(loaded.model, loaded.file)
    sites, summaries = build_sites(
        attending.finished(),
        loaded.name,
        lambda path: known.configs,
        unconfigured=known.unconfigured,
    )
    recorder.retainer.clear()
    recorder.forget()
    if interpreter.by_reference:
        kinds = ", ".join(sorted(interpreter.by_reference))
        remarks = (*remarks, f"run by onnx's reference, onnxruntime having no kernel: {kinds}")
    return Trace(
        sites=sites,
        summaries=summaries,
        unhandled=(*recorder.listed(), *attending.elsewhere()),
        remarks=(*remarks, *known.remarks, *faults),
        environment=_environment(loaded, sites, seed),
        state=state,
        state_reason=reason,
        operations=interpreter.operations,
    )


class _Pass(NamedTuple):
    recorder: Recorder
    attending: OnnxAttending
    interpreter: Interpreter


def _first_that_runs(
    once: Callable[[Guess], tuple[_Pass, tuple[str, ...]]], *, open_: bool
) -> tuple[_Pass, tuple[str, ...]]:
    """Try sizes in turn where inputs are made up; the first failure is the one that is told."""
    first: TargetError | None = None
    for guess in GUESSES if open_ else GUESSES[:1]:
        try:
            return once(guess)
        except TargetError as error:
            first = first or error
    assert first is not None
    if not open_:
        raise first
    raise TargetError(f"{first}; if the sizes of its inputs are at fault, give them") from None


def _environment(loaded: Loaded, sites: Sequence[AttentionSite], seed: int | None) -> Environment:
    producer = " ".join((loaded.model.producer_name, loaded.model.producer_version)).strip()
    versions = {
        "rootdk": rootdk.__version__,
        "onnx": onnx.__version__,
        "onnxruntime": onnxruntime.__version__,
        "opset": str(loaded.opsets.get("", loaded.opsets.get("ai.onnx", 0))),
        "python": platform.python_version(),
        **({"producer": producer} if producer else {}),
    }
    dtype = sites[0].score_dtype if sites else "float32"
    return Environment(versions=versions, device="cpu", dtype=dtype, training=None, seed=seed)
