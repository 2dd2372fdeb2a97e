"""What every frontend does while a model runs: hold what the walks will ask for, and tell.

A frontend that runs a model makes one node a tensor and calls ``describe`` and then ``tell``
with the arrays at hand. What follows a softmax is decided here, the same for all of them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

from rootdk._lib.arrays import Array
from rootdk.frontends._graph.node import SCORES, Kind, Node
from rootdk.frontends._graph.tags import (
    behind_layout,
    inherited_weights,
    log_weights,
    may_be_product,
    may_be_scores,
    meets_values,
    scores_flag,
)
from rootdk.frontends._sites.listener import Listener
from rootdk.frontends._sites.numbers import Floats, count, plain
from rootdk.frontends._sites.replay import LostError, Retainer, ValueOf
from rootdk.frontends._sites.values import ArrayValues
from rootdk.records import Unhandled

__all__ = ["SIDE_ENTRIES", "Recording"]

SIDE_ENTRIES = 1 << 22
"""Side operands of up to this many entries are held for the walks."""

_SIDES_HELD = 32
_PRODUCTS_HELD = 8
# A factor per position, made of activations: held if it is small.
_POSITIONS = 65536
_ARITHMETIC = frozenset("mul div add sub where masked_fill maximum matmul cat clamp".split())
_PRODUCTS = frozenset({"matmul", "linear", "conv"})


class Recording:
    """Holds side operands for the walks, and tells a listener of the moments that matter."""

    # Tests set this, so that a fault of the tracer is seen as one.
    strict = False
    # What a fused operation is listed with.
    prefix = ""

    retainer: Retainer

    def __init__(self) -> None:
        self.listener: Listener | None = None
        self.values = ArrayValues()
        self.unhandled: Counter[tuple[str, str]] = Counter()
        self.scope: tuple[int, ...] = ()
        self.module_path = ""
        self.autocast: str | None = None
        self.calls_with_products: set[int] = set()
        self.softmax_sizes: dict[int, int] = {}
        self.operations = 0
        self.faults: list[tuple[Node, str]] = []
        self._index = 0
        self._sides: deque[Node] = deque()
        self._spent: deque[Node] = deque()
        self._products: deque[Node] = deque()

    def new_node(
        self,
        op: str,
        inputs: tuple[Node, ...],
        *,
        shape: tuple[int, ...],
        dtype: str,
        kind: Kind,
        attrs: dict[str, Any],
    ) -> Node:
        """Make the next node, in the module that runs now."""
        self._index += 1
        return Node(
            self._index,
            op,
            inputs,
            shape=shape,
            dtype=dtype,
            kind=kind,
            attrs=attrs,
            scope=self.scope,
            module_path=self.module_path,
        )

    def again(self, node: Node, value_of: ValueOf) -> Array:
        """Run the operation of ``node`` again; see ``Holder``."""
        raise NotImplementedError

    def moved(self, node: Node, inputs: Sequence[Floats]) -> Floats:
        """Run an operation that only moves entries on other entries; see ``Holder``."""
        raise LostError(f"{node.op} cannot be run again on other entries")

    def describe(self, node: Node, sources: Sequence[Array], array: Array) -> None:
        """Say whether a new node holds scores or weights, and hold what the walks will ask for.

        ``sources`` are the arrays of its inputs, in order; ``array`` is its own.
        """
        inputs = node.inputs
        floating = node.dtype.startswith(("float", "bfloat"))
        node.on_scores = scores_flag(node) if floating else 0
        node.weights_of = inherited_weights(node, self.softmax_sizes)
        if node.op == "softmax":
            # Whatever it is over: what it weighs up is no query-key product.
            node.weights_of = (*node.weights_of, node.index)
            self.softmax_sizes[node.index] = count(array)
        learned = any(source.kind == Kind.PARAMETER for source in inputs[:2])
        if node.op in _PRODUCTS and learned and self.scope:
            self.calls_with_products.add(self.scope[-1])
        self._hold_sides(node, sources)
        if node.op == "matmul" and node.on_scores:
            node.attrs["operands"] = (plain(sources[0]), plain(sources[1]))
            self._hold_product(node)
        elif node.op in {"sum", "mean"} and inputs and "factors" in inputs[0].attrs:
            node.attrs["operands"] = inputs[0].attrs["factors"]
        elif "scalar" in node.attrs and inputs and "factors" in inputs[0].attrs:
            if node.op in {"mul", "div"}:
                node.attrs["factors"] = inputs[0].attrs["factors"]
                self._hold_product(node)
        elif node.op == "mul" and len(sources) == 2 and may_be_product(node):
            node.attrs["factors"] = (plain(sources[0]), plain(sources[1]))
            self._hold_product(node)

    def _hold_sides(self, node: Node, sources: Sequence[Array]) -> None:
        """Keep the side operands of arithmetic alive for the walk."""
        if node.op not in _ARITHMETIC or len(sources) < 2:
            return
        alone = sum(source.on_scores != 0 for source in node.inputs) == 1
        for source, array in zip(node.inputs, sources, strict=True):
            if node.on_scores:
                if alone and source.on_scores:
                    # The way itself, which nobody asks for: as large as all scores.
                    continue
                if source.on_scores == 0 or source.index not in node.weights_of:
                    source.attrs["tensor"] = plain(array)
                    self._sides.append(source)
            elif source.kind != Kind.ACTIVATION or source.value is not None:
                if count(array) <= SIDE_ENTRIES:
                    source.attrs["tensor"] = plain(array)
            elif count(array) <= _POSITIONS and array.shape and array.shape[-1] == 1:
                source.attrs["tensor"] = plain(array)
        while len(self._sides) > _SIDES_HELD:
            self._sides.popleft().attrs.pop("tensor", None)

    def _hold_product(self, node: Node) -> None:
        self._products.append(node)
        self._keep_products(_PRODUCTS_HELD)

    def _keep_products(self, most: int) -> None:
        while len(self._products) > most:
            old = self._products.popleft()
            old.attrs.pop("operands", None)
            old.attrs.pop("factors", None)

    def forget(self) -> None:
        """Let go of the operands of products, of side operands, and of the listener.

        The listener knows the recording, and the two would wait for the garbage collector with
        all that they hold.
        """
        self.listener = None
        self._keep_products(0)
        for _ in range(2):  # of the last softmax, and of the one before
            self.release()

    def release(self) -> None:
        """Let go of the side operands of the softmax before the last.

        Two softmaxes may share a product, and what was added to its scores: operands are let go
        of by their number, side operands one softmax later.
        """
        kept = {id(side) for side in self._sides}
        for side in self._spent:
            if id(side) not in kept:
                side.attrs.pop("tensor", None)
        self._spent, self._sides = self._sides, deque()

    def tell(
        self,
        node: Node,
        name: str,
        sources: Sequence[Array],
        array: Array,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
        out: Any = None,
    ) -> None:
        """Tell the listener; a fault of ours costs a site, never the model's run."""
        try:
            if node.op == "fused":
                self._tell_fused(node, name, args, kwargs or {}, out)
            else:
                self._tell(node, sources, array)
        except Exception as error:
            if self.strict:
                raise
            first = str(error).splitlines()[0] if str(error) else ""
            said = f"{type(error).__name__}: {first}"
            self.faults.append((node, said))

    def _tell_fused(
        self, node: Node, name: str, args: Sequence[Any], kwargs: dict[str, Any], out: Any
    ) -> None:
        listener = self.listener
        if listener is not None and not listener.on_fused(name, node, args, kwargs, out):
            self.note_unhandled(self.prefix + name)

    def _tell(self, node: Node, sources: Sequence[Array], array: Array) -> None:
        listener = self.listener
        if listener is None:
            return
        if node.op == "softmax" and may_be_scores(node.inputs[0]):
            listener.on_softmax(node, plain(sources[0]), plain(array))
        elif node.op in {"exp", "exp2"} and node.inputs[0].on_scores:
            listener.on_exponential(node, plain(sources[0]))
        elif node.op == "exp" and behind_layout(node.inputs[0]).op == "log_softmax":
            listener.on_log_softmax(node, behind_layout(node.inputs[0]), plain(array))
        elif (
            node.op in {"div", "mul"}
            and len(node.inputs) == 2
            and (node.on_scores or "unnormalised" in behind_layout(node.inputs[0]).attrs)
        ):
            listener.on_division(node, plain(array))
        elif node.op == "div" and behind_layout(node.inputs[0]).op in {"exp", "exp2"}:
            listener.on_other_division(node)
        elif node.op in {"matmul", "sum"} and meets_values(node):
            listener.on_weights_product(node, [plain(source) for source in sources])
        elif node.op == "matmul" and log_weights(node) is not None:
            listener.on_log_weights(node, log_weights(node), [plain(s) for s in sources])
        elif node.op == "matmul" and SCORES in [s.on_scores for s in node.inputs[:2]]:
            listener.on_unnormalised(node, [plain(source) for source in sources])
        if node.op in {"mul", "div"} and (
            "scalar" in node.attrs or any(source.value is not None for source in node.inputs)
        ):
            listener.on_output_factor(node)
        elif node.op in {"add", "sub"} and len(node.inputs) == 2:
            listener.on_sum(node)

    def note_unhandled(self, name: str) -> None:
        """List an operation that was not understood, at the module that runs now."""
        self.unhandled[name, self.module_path] += 1

    def listed(self) -> tuple[Unhandled, ...]:
        """What was not understood, by name, with the first place of each."""
        together: dict[str, tuple[int, str]] = {}
        for (name, where), times in self.unhandled.items():
            seen, first = together.get(name, (0, where))
            together[name] = (seen + times, first)
        return tuple(
            Unhandled(
                operation=name, count=times, where=where, why="not in the table of operations"
            )
            for name, (times, where) in sorted(together.items())
        )
