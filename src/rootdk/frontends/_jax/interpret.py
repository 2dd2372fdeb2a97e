"""Runs a jaxpr equation by equation, through calls, loops and branches, and records each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

from rootdk.frontends._graph.node import Kind
from rootdk.frontends._jax import arithmetic, layout, products
from rootdk.frontends._jax.frames import Frames, Lines
from rootdk.frontends._jax.names import in_module, path_of
from rootdk.frontends._jax.step import TABLE, Step
from rootdk.frontends._jax.tape import Tape, Value, host
from rootdk.records import Source

__all__ = ["Interpreter"]


@dataclass(frozen=True)
class Around:
    """What is around a jaxpr: scopes and transformations, outermost first, and lines of code."""

    scopes: tuple[Any, ...] = ()
    lines: Lines = field(default_factory=Lines)


# Importing the modules is what enters their primitives into the table.
_ENTERED = (arithmetic, layout, products)

# Calls whose body is run as it stands, and the parameter that holds it.
_CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "remat": "jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "custom_lin": "call_jaxpr",
    "run_state": "jaxpr",
}


class Interpreter:
    """Runs jaxprs on a tape; ``root`` is the name of the outermost module, dropped from paths.

    ``holding`` are the paths of modules that are known to hold parameters.
    """

    def __init__(
        self, tape: Tape, root: str | None, holding: frozenset[tuple[str, ...]] = frozenset()
    ) -> None:
        self.tape = tape
        self.root = root
        self.holding = holding
        self.frames = Frames()
        self._calls: dict[tuple[str, ...], int] = {}
        self._call = 0
        self._open: tuple[str, ...] = ()
        self._inside: dict[str, Callable[[JaxprEqn, list[Value], Around], list[Value]]] = {
            "scan": self._scan,
            "while": self._while,
            "cond": self._cond,
        }

    def run(
        self, jaxpr: Jaxpr, consts: Sequence[Value], args: Sequence[Value], around: Around
    ) -> list[Value]:
        """The outputs of a jaxpr, with what is around it."""
        known: dict[Any, Value] = {}
        known.update(zip(jaxpr.constvars, consts, strict=True))
        known.update(zip(jaxpr.invars, args, strict=True))
        last = _last_uses(jaxpr)
        for number, eqn in enumerate(jaxpr.eqns):
            values = [self._read(known, atom) for atom in eqn.invars]
            outs = self._equation(eqn, values, around)
            known.update(zip(eqn.outvars, outs, strict=True))
            for var in last.get(number, ()):
                known.pop(var, None)
        return [self._read(known, atom) for atom in jaxpr.outvars]

    def _read(self, known: dict[Any, Value], atom: Any) -> Value:
        if isinstance(atom, Literal):
            aval: Any = atom.aval
            return self.tape.leaf(np.asarray(atom.val, aval.dtype), "constant", Kind.CONSTANT)
        return known[atom]

    def _equation(self, eqn: JaxprEqn, values: list[Value], around: Around) -> list[Value]:
        name = eqn.primitive.name
        info = eqn.source_info
        lines = self.frames.lines(info.traceback).within(around.lines)
        around = Around((*around.scopes, *info.name_stack.stack), lines)
        body = eqn.params.get(_CALLS.get(name, ""))
        if body is not None:
            closed = _closed(body)
            consts = [self.constant(const) for const in closed.consts]
            return self.run(closed.jaxpr, consts, values, around)
        if name in self._inside:
            return self._inside[name](eqn, values, around)
        self._enter(around)
        self.tape.operations += 1
        params, given = _bound(eqn, [value.given for value in values])
        outs = list(given) if eqn.primitive.multiple_results else [given]
        return self._lowered(Step(self.tape, eqn.primitive, params, values, outs))

    def _lowered(self, step: Step) -> list[Value]:
        """The outputs as nodes; what has no number on the host is a random key."""
        handler = TABLE.get(step.name)
        if any(host(out) is None for out in step.given):
            return step.opaque()
        if handler is None or any(value.host is None for value in step.values):
            if step.name.startswith(("random_", "threefry")):
                return [self._drawn(step, out) for out in step.given]
            return step.opaque()
        try:
            return handler(step)
        except Exception as error:
            # A fault of ours costs a node, never the run.
            if self.tape.strict:
                raise
            first = str(error).splitlines()[0] if str(error) else ""
            out = step.opaque()
            self.tape.faults.append((out[0].node, f"{type(error).__name__}: {first}"))
            return out

    def _drawn(self, step: Step, out: Any) -> Value:
        array = np.asarray(out)
        return self.tape.add("random", [], array, lambda: array, given=out, name=step.name)

    def constant(self, value: Any) -> Value:
        """An array that a function closed over: a parameter, if it is a table of numbers."""
        array = host(value)
        learned = array is not None and array.ndim > 0 and array.dtype.kind in "fVc"
        return self.tape.leaf(
            value,
            "parameter" if learned else "constant",
            Kind.PARAMETER if learned else Kind.CONSTANT,
        )

    # -- where it is ---------------------------------------------------------------------------

    def _enter(self, around: Around) -> None:
        """Say in which module and on which line the equation stands."""
        path = path_of(around.scopes, self.root)
        if path != self._open:
            same = sum(1 for a, b in zip(path, self._open, strict=False) if a == b)
            for depth in range(len(path)):
                if depth >= same or path[: depth + 1] not in self._calls:
                    self._call += 1
                    self._calls[path[: depth + 1]] = self._call
            self._open = path
            self.tape.scope = tuple(self._calls[path[: d + 1]] for d in range(len(path)))
            self.tape.module_path = ".".join(path)
        if self.tape.scope and in_module(around.scopes, path, self.holding):
            self.tape.module_calls.add(self.tape.scope[-1])
        lines = around.lines
        self.tape.source = Source(frames=lines.frames, module_path=self.tape.module_path)
        self.tape.region = lines.region

    # -- loops and branches --------------------------------------------------------------------

    def _scan(self, eqn: JaxprEqn, values: list[Value], around: Around) -> list[Value]:
        """Each iteration runs by itself; what is stacked at the end is a node of its own."""
        params, closed = eqn.params, _closed(eqn.params["jaxpr"])
        first, carried = params["num_consts"], params["num_carry"]
        consts, carry = values[:first], values[first : first + carried]
        stacked = values[first + carried :]
        inner = [self.constant(const) for const in closed.consts]
        order = range(params["length"])
        rows: list[list[Value]] = []
        for at in reversed(order) if params["reverse"] else order:
            self._enter(around)
            row = [self._row(value, at) for value in stacked]
            outs = self.run(closed.jaxpr, inner, [*consts, *carry, *row], around)
            carry = outs[:carried]
            rows.append(outs[carried:])
        if params["reverse"]:
            rows.reverse()
        self._enter(around)
        width = len(eqn.outvars) - carried
        return [*carry, *(self._stack([row[i] for row in rows], eqn, i) for i in range(width))]

    def _row(self, value: Value, at: int) -> Value:
        if value.host is None:
            return self.tape.leaf(value.given[at], "random", Kind.CONSTANT)
        attrs = {"dim": 0, "at": at}
        return self.tape.add(
            "select", [value], value.host[at], lambda x: x[at], attrs, name="scan row"
        )

    def _stack(self, rows: list[Value], eqn: JaxprEqn, number: int) -> Value:
        arrays = [row.host for row in rows if row.host is not None]
        if len(arrays) != len(rows) or not rows:
            aval = eqn.outvars[eqn.params["num_carry"] + number].aval
            return self.tape.leaf(np.zeros(aval.shape, np.float32), "unknown", Kind.UNKNOWN)
        return self.tape.add("stack", rows, np.stack(arrays), lambda *xs: np.stack(xs), name="scan")

    def _while(self, eqn: JaxprEqn, values: list[Value], around: Around) -> list[Value]:
        params = eqn.params
        condition, body = _closed(params["cond_jaxpr"]), _closed(params["body_jaxpr"])
        asked, given = params["cond_nconsts"], params["body_nconsts"]
        asks, gives = values[:asked], values[asked : asked + given]
        carry = values[asked + given :]
        outer = [self.constant(c) for c in condition.consts]
        inner = [self.constant(c) for c in body.consts]
        while bool(self.run(condition.jaxpr, outer, [*asks, *carry], around)[0].given):
            carry = self.run(body.jaxpr, inner, [*gives, *carry], around)
        return carry

    def _cond(self, eqn: JaxprEqn, values: list[Value], around: Around) -> list[Value]:
        branches = eqn.params["branches"]
        chosen = min(max(int(values[0].given), 0), len(branches) - 1)
        closed = _closed(branches[chosen])
        consts = [self.constant(c) for c in closed.consts]
        return self.run(closed.jaxpr, consts, values[1:], around)


def _bound(eqn: JaxprEqn, values: list[Any]) -> tuple[dict[str, Any], Any]:
    """What the primitive gives, and the parameters that it was run with.

    jax.nn asks for a precision that not every device has, and takes the default where it is
    refused; a jaxpr holds the first attempt only.
    """
    params: dict[str, Any] = eqn.primitive.get_bind_params(eqn.params)  # type: ignore[no-untyped-call]
    with eqn.ctx.manager:
        try:
            return params, eqn.primitive.bind(*values, **params)  # type: ignore[no-untyped-call]
        except ValueError:
            if params.get("precision") is None:
                raise
            params = {**params, "precision": None}
            return params, eqn.primitive.bind(*values, **params)  # type: ignore[no-untyped-call]


def _closed(body: Any) -> ClosedJaxpr:
    return body if isinstance(body, ClosedJaxpr) else ClosedJaxpr(body, ())


def _last_uses(jaxpr: Jaxpr) -> dict[int, list[Any]]:
    """After which equation each variable is not read any more."""
    last: dict[Any, int] = {}
    for number, eqn in enumerate(jaxpr.eqns):
        for atom in (*eqn.invars, *eqn.outvars):
            if not isinstance(atom, Literal):
                last[atom] = number
    for atom in jaxpr.outvars:
        if not isinstance(atom, Literal):
            last.pop(atom, None)
    uses: dict[int, list[Any]] = {}
    for var, number in last.items():
        uses.setdefault(number, []).append(var)
    return uses
