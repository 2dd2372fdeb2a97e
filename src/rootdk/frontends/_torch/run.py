"""Run a module once under the recorder, and turn what was seen into records."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch

import rootdk
from rootdk.frontends._base import Trace
from rootdk.frontends._graph.node import Kind
from rootdk.frontends._outcome import outcome_remarks
from rootdk.frontends._sites.sites import build_sites, faults_of
from rootdk.frontends._torch.arguments import tensors_in
from rootdk.frontends._torch.fused import TorchAttending
from rootdk.frontends._torch.quantised import holds_weights
from rootdk.frontends._torch.recorder import Recorder
from rootdk.frontends._torch.scopes import Scopes
from rootdk.frontends._torch.state import (
    Parts,
    Untouched,
    model_state,
    padding_kept,
    require_values,
)
from rootdk.records import Environment

__all__ = ["run"]

_BUDGET = 64 << 20


def run(
    model: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    rows: int,
    seed: int | None,
    statistics: bool,
    progress: Callable[[str], None] | None,
) -> Trace:
    """One forward pass of ``model``; see ``rootdk.frontends.trace``."""
    model = getattr(model, "_orig_mod", model)
    inputs = tensors_in([args, kwargs])
    parts = Parts.of(model)
    require_values(parts, inputs)
    state, reason = model_state(parts)
    size = sum(p.numel() * p.element_size() for p in parts.parameters.values())
    recorder = Recorder(max(_BUDGET, size // 8))
    scopes = Scopes(model, parts.modules, recorder)
    attending = TorchAttending(
        recorder,
        rows=rows,
        seed=0 if seed is None else seed,
        statistics=statistics,
        training_of=scopes.training,
        progress=progress,
    )
    untouched = Untouched(parts, inputs)
    recorder.before_write = untouched.before_write
    _register(recorder, parts, inputs)
    recorder.listener = attending
    with ExitStack() as stack:
        stack.enter_context(untouched.restored(seed))
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message=r"Using `torch.compile\(module\)` when there")
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(padding_kept(parts))
        stack.enter_context(scopes.watching())
        stack.enter_context(recorder)
        outcome = model(*args, **kwargs)
    pending = attending.finished()
    remarks = (
        *faults_of(attending, recorder),
        *outcome_remarks(outcome, type(model).__name__, found=bool(pending)),
    )
    sites, summaries = build_sites(pending, type(model).__name__, scopes.configs_at)
    recorder.retainer.clear()
    recorder.forget()
    return Trace(
        sites=sites,
        summaries=summaries,
        unhandled=(*recorder.listed(), *attending.elsewhere()),
        remarks=remarks,
        environment=_environment(model, inputs, seed, sites),
        state=state,
        state_reason=reason,
        operations=recorder.operations,
    )


def _register(recorder: Recorder, parts: Parts, inputs: list[torch.Tensor]) -> None:
    for parameter in parts.parameters.values():
        recorder.leaf(parameter, "parameter", Kind.PARAMETER)
    for buffer in parts.buffers:
        if holds_weights(buffer):
            recorder.leaf(buffer, "parameter", Kind.PARAMETER)
        else:
            recorder.leaf(buffer, "constant", Kind.CONSTANT)
    for module in parts.modules.values():
        for name, value in vars(module).items():
            if not name.startswith("_"):
                for tensor in tensors_in(value):
                    if recorder.identities.find(tensor) is None:
                        recorder.leaf(tensor, "constant", Kind.CONSTANT)
    for tensor in inputs:
        if tensor.is_nested:
            continue
        floating = tensor.is_floating_point() or tensor.is_complex()
        recorder.leaf(tensor, "input", Kind.ACTIVATION if floating else Kind.INDEX)


def _environment(
    model: torch.nn.Module, inputs: list[torch.Tensor], seed: int | None, sites: Any
) -> Environment:
    first = next(model.parameters(), None)
    tensor = first if first is not None else (inputs[0] if inputs else None)
    dtype = str(tensor.dtype).removeprefix("torch.") if tensor is not None else "float32"
    device = str(tensor.device) if tensor is not None else "cpu"
    autocast = next((s.autocast for s in sites if s.autocast), None)
    versions = {
        "rootdk": rootdk.__version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
    }
    return Environment(
        versions=versions,
        device=device,
        dtype=dtype,
        training=model.training,
        autocast=autocast,
        seed=seed,
    )
