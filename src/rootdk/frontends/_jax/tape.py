"""Records what a jaxpr computes, as nodes with the values beside them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from rootdk.frontends._graph.node import LAYOUT, SCORES, Kind, Node
from rootdk.frontends._graph.tags import kind_of
from rootdk.frontends._sites.keeping import Keeper
from rootdk.frontends._sites.recording import SIDE_ENTRIES, Recording
from rootdk.frontends._sites.replay import LostError, ValueOf
from rootdk.records import Source

__all__ = ["Again", "Tape", "Value", "host", "is_random"]

HostArray = npt.NDArray[Any]
Run = Callable[..., Any]

_RECENT = 6


@dataclass(slots=True, eq=False)
class Value:
    """A variable of a jaxpr: JAX's own value, the same on the host, and its node.

    ``host`` is None for what NumPy cannot hold (a random key).
    """

    given: Any
    host: HostArray | None
    node: Node

    @property
    def array(self) -> HostArray:
        """The value on the host."""
        if self.host is None:
            raise LostError("a random key has no numbers")
        return self.host


@dataclass(slots=True)
class Again:
    """How one node is computed: from the values of nodes and from constants."""

    run: Run
    operands: tuple[Node | HostArray, ...]


def host(value: Any) -> HostArray | None:
    """The value as a NumPy array; None for a random key. It may share the memory."""
    dtype = getattr(value, "dtype", None)
    if dtype is not None and not isinstance(dtype, np.dtype):
        return None
    return np.asarray(value)


class Tape(Recording):
    """The recording of one run of a jaxpr."""

    retainer: Keeper

    def __init__(self, budget: int) -> None:
        super().__init__()
        self.retainer = Keeper(budget)
        self.source = Source(frames=(), module_path="")
        # The function of jax.nn that an equation belongs to, if any.
        self.region: str | None = None
        self._recent: deque[Value] = deque(maxlen=_RECENT)
        # Calls of modules, and the one node that each has handed out; None if it was more.
        self.module_calls: set[int] = set()
        self._handed_out: dict[int, Node | None] = {}

    def remember(self, value: Value) -> None:
        """Hold a value for the next few equations."""
        self._recent.append(value)

    def remembered(self, node: Node) -> Value | None:
        """The value of a node that is still held."""
        return next((value for value in self._recent if value.node is node), None)

    def leaf(self, value: Any, op: str, kind: Kind) -> Value:
        """A value that exists before the run."""
        array = host(value)
        shape = tuple(getattr(value, "shape", ()))
        dtype = str(getattr(value, "dtype", "float32"))
        node = self.new_node(op, (), shape=shape, dtype=dtype, kind=kind, attrs={})
        if array is not None:
            node.dtype = array.dtype.name
            if array.size <= SIDE_ENTRIES:
                node.attrs["tensor"] = array
            if kind != Kind.ACTIVATION:
                node.value = number_in(array)
            self.retainer.keep(node, array)
        return Value(value, array, node)

    def add(
        self,
        op: str,
        sources: Sequence[Value],
        array: HostArray,
        run: Run,
        attrs: dict[str, Any] | None = None,
        *,
        beside: Sequence[Value] = (),
        given: Any = None,
        name: str | None = None,
    ) -> Value:
        """Record an operation: ``array`` is ``run`` of the arrays of ``sources``.

        ``beside`` are inputs that ``run`` does not take, and the graph does not see: their kind
        counts, their values are in ``run`` already.
        """
        for source in sources:
            self._leaving(source)
        inputs = tuple(source.node for source in sources)
        attrs = {"name": name or op, **(attrs or {})}
        above = (*inputs, *(value.node for value in beside))
        kind = kind_of(op, above)
        if kind == Kind.CONSTANT:
            attrs = {**_drawn(above), **attrs}
        node = self.new_node(
            op, inputs, shape=array.shape, dtype=array.dtype.name, kind=kind, attrs=attrs
        )
        node.source = self.source
        if kind <= Kind.PARAMETER and op != "random" and "random" not in attrs:
            node.value = number_in(array)
        arrays = [source.host for source in sources]
        self.describe(node, arrays, array)
        if node.on_scores != SCORES and kind >= Kind.PARAMETER:
            attrs["call"] = Again(run, tuple(_operand(source) for source in sources))
        if op not in LAYOUT and node.on_scores != SCORES and kind >= Kind.PARAMETER and array.ndim:
            self.retainer.keep(node, array)
        self.tell(node, attrs["name"], arrays, array)
        if op == "opaque" and kind >= Kind.PARAMETER:
            self.note_unhandled(attrs["name"])
        return Value(array if given is None else given, array, node)

    def _leaving(self, value: Value) -> None:
        """Mark what a module with a product of its own hands out, if that is one array.

        A factor before it is the module's: a projection that is scaled has small entries, not
        another scale of attention. Of a module that hands out several (query, key and value)
        this cannot be said.
        """
        node = value.node
        if node.kind < Kind.ACTIVATION or not node.scope or node.scope[-1] in self.scope:
            return
        call = node.scope[-1]
        if call not in self.module_calls or call not in self.calls_with_products:
            return
        first = self._handed_out.setdefault(call, node)
        if first is not node:
            self._handed_out[call] = None
            if first is not None:
                first.attrs.pop("exit_of", None)
        elif "exit_of" not in node.attrs:
            node.attrs["exit_of"] = call
            if value.host is not None and self.retainer.value(node) is None:
                self.retainer.keep(node, value.host)

    def again(self, node: Node, value_of: ValueOf) -> HostArray:
        """Run one operation again; see ``Holder``."""
        call = node.attrs.get("call")
        if isinstance(call, Again):
            return np.asarray(call.run(*(_given(o, value_of) for o in call.operands)))
        held = self.retainer.value(node)
        held = self.values.tensor(node) if held is None else held
        if held is None:
            raise LostError(f"{node.op} cannot be run again")
        return np.asarray(held)


def _given(operand: Node | HostArray, value_of: ValueOf) -> HostArray:
    """An operand of a call, in the dtype that it was recorded with."""
    if not isinstance(operand, Node):
        return operand
    return np.asarray(value_of(operand)).astype(np.dtype(operand.dtype), copy=False)


def number_in(array: HostArray) -> float | None:
    """The number in an array of one element that is real; None otherwise."""
    if array.size != 1 or np.iscomplexobj(array):
        return None
    return float(array.reshape(-1)[0])


def is_random(node: Node) -> bool:
    """Whether a constant was drawn at random."""
    return node.kind == Kind.CONSTANT and (node.op == "random" or "random" in node.attrs)


def _drawn(above: Sequence[Node]) -> dict[str, Any]:
    """What a constant made of random bits remembers: that it is one, and the share dropped."""
    drawn = [node for node in above if is_random(node)]
    rates = [node.attrs["p"] for node in drawn if "p" in node.attrs]
    attrs: dict[str, Any] = {"random": True} if drawn else {}
    return attrs | ({"p": rates[0]} if rates else {})


def _operand(source: Value) -> Node | HostArray:
    """A node for what may be replayed, so that no activation is held; else the array."""
    node, array = source.node, source.host
    if array is None or node.kind >= Kind.ACTIVATION or prod(node.shape) > SIDE_ENTRIES:
        return node
    return array
