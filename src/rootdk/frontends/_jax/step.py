"""One equation while it is lowered, and the table of those who lower."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rootdk.frontends._graph.node import Kind
from rootdk.frontends._jax.tape import HostArray, Run, Tape, Value, host

__all__ = ["TABLE", "Lowering", "Step", "entry", "same"]


@dataclass
class Step:
    """One equation: its inputs, and what the primitive gave."""

    tape: Tape
    primitive: Any
    params: Mapping[str, Any]
    values: list[Value]
    given: list[Any]

    @property
    def name(self) -> str:
        """The name of the primitive."""
        return str(self.primitive.name)

    @property
    def array(self) -> HostArray:
        """The first output on the host."""
        array = host(self.given[0])
        return np.zeros(()) if array is None else array

    def bind(self, *arrays: HostArray) -> Any:
        """Run the primitive on other arrays; the first output."""
        out = self.primitive.bind(*arrays, **self.params)
        return out[0] if self.primitive.multiple_results else out

    def whole(self, op: str, **attrs: Any) -> list[Value]:
        """Record the equation as one operation of all its inputs."""
        return [self.out(op, self.values, self.bind, attrs)]

    def out(
        self,
        op: str,
        sources: Sequence[Value],
        run: Run,
        attrs: dict[str, Any] | None = None,
        beside: Sequence[Value] = (),
    ) -> Value:
        """Record the first output."""
        return self.tape.add(
            op,
            sources,
            self.array,
            run,
            attrs,
            beside=beside,
            given=self.given[0],
            name=self.name,
        )

    def opaque(self, why: str | None = None) -> list[Value]:
        """Record every output as something that is not understood."""
        label = why or self.name
        outputs = []
        for position, given in enumerate(self.given):
            array = host(given)
            if array is None:
                outputs.append(self.tape.leaf(given, "random", Kind.CONSTANT))
                continue
            run = _picking(self.primitive, dict(self.params), position)
            sources = [value for value in self.values if value.host is not None]
            outputs.append(self.tape.add("opaque", sources, array, run, given=given, name=label))
        return outputs


def _picking(primitive: Any, params: dict[str, Any], position: int) -> Run:
    def run(*arrays: HostArray) -> Any:
        out = primitive.bind(*arrays, **params)
        return out[position] if primitive.multiple_results else out

    return run


Lowering = Callable[[Step], list[Value]]

TABLE: dict[str, Lowering] = {}


def entry(*names: str) -> Callable[[Lowering], Lowering]:
    """Enter a function into the table under the names of primitives."""

    def register(function: Lowering) -> Lowering:
        for name in names:
            TABLE[name] = function
        return function

    return register


def same(op: str, *names: str) -> None:
    """Primitives whose inputs are all that matters."""

    def handler(step: Step) -> list[Value]:
        return step.whole(op)

    for name in names:
        TABLE[name] = handler
