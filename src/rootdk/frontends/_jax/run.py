"""Trace a function of JAX once, run its jaxpr, and turn what was seen into records."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

import rootdk
from rootdk.frontends._base import Trace
from rootdk.frontends._graph.node import Kind
from rootdk.frontends._jax.arguments import Leaf, prepare
from rootdk.frontends._jax.interpret import Around, Interpreter
from rootdk.frontends._jax.models import model_of, modules_named
from rootdk.frontends._jax.names import holders
from rootdk.frontends._jax.state import state_of
from rootdk.frontends._jax.tape import Tape, Value
from rootdk.frontends._outcome import outcome_remarks
from rootdk.frontends._sites.attend import Attending
from rootdk.frontends._sites.sites import build_sites, faults_of
from rootdk.records import Environment

__all__ = ["run"]

_BUDGET = 64 << 20
_OPS = {Kind.PARAMETER: "parameter", Kind.CONSTANT: "constant"}


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
    """One run of ``model``; see ``rootdk.frontends.trace``."""
    known = model_of(model)
    prepared = prepare(known.function, known.learned, args, kwargs)
    arrays = [leaf.array for leaf in prepared.leaves]
    with modules_named():
        closed = jax.make_jaxpr(prepared.function)(*arrays)
    outcome = prepared.outcomes.pop() if prepared.outcomes else ()
    learned = [leaf.array for leaf in prepared.leaves if leaf.kind == Kind.PARAMETER]
    tape = Tape(max(_BUDGET, sum(int(a.nbytes) for a in learned) // 2))
    attending = Attending(
        tape,
        rows=rows,
        seed=0 if seed is None else seed,
        statistics=statistics,
        training_of=lambda: known.training,
        progress=progress,
    )
    tape.listener = attending
    paths = [leaf.path for leaf in prepared.leaves if leaf.kind == Kind.PARAMETER]
    interpreter = Interpreter(tape, known.root, holders(paths, known.root))
    values = [
        tape.leaf(leaf.array, _OPS.get(leaf.kind, "input"), leaf.kind) for leaf in prepared.leaves
    ]
    consts = [interpreter.constant(const) for const in closed.consts]
    interpreter.run(closed.jaxpr, consts, values, Around())
    configs = [c for c in (getattr(model, "config", None),) if c is not None]
    pending = attending.finished()
    remarks = (
        *faults_of(attending, tape),
        *outcome_remarks(outcome, known.name, found=bool(pending)),
    )
    sites, summaries = build_sites(pending, known.name, lambda path: configs)
    tape.retainer.clear()
    tape.forget()
    state, reason = state_of(prepared.leaves)
    return Trace(
        sites=sites,
        summaries=summaries,
        unhandled=(*tape.listed(), *attending.elsewhere()),
        remarks=remarks,
        environment=_environment(prepared.leaves, seed),
        state=state,
        state_reason=reason,
        operations=tape.operations,
    )


def _leaf(tape: Tape, leaf: Leaf) -> Value:
    return tape.leaf(leaf.array, _OPS.get(leaf.kind, "input"), leaf.kind)


def _environment(leaves: Sequence[Leaf], seed: int | None) -> Environment:
    first = next((leaf for leaf in leaves if leaf.kind >= Kind.PARAMETER), None)
    dtype = str(first.array.dtype) if first is not None else "float32"
    versions = {
        "rootdk": rootdk.__version__,
        "jax": jax.__version__,
        "python": platform.python_version(),
    }
    return Environment(
        versions=versions,
        device=jax.default_backend(),
        dtype=dtype,
        training=None,
        seed=seed,
    )
