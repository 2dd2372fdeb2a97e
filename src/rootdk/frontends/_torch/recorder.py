"""Records the dataflow of one forward pass at the dispatch level.

The recorder sees every ATen call, after autograd and after composite functions were taken
apart, whatever the model's Python looks like. It keeps one node a tensor, and hands softmaxes,
fused attention and products with weights to a listener at the moment they run.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from rootdk.frontends._graph.node import LAYOUT, SCORES, Kind, Node
from rootdk.frontends._graph.tags import (
    behind_layout,
    inherited_weights,
    kind_of,
    may_be_product,
    may_be_scores,
    meets_values,
    scores_flag,
)
from rootdk.frontends._sites.listener import Listener
from rootdk.frontends._sites.values import TensorValues
from rootdk.frontends._torch.arguments import (
    SIDE_ENTRIES,
    by_node,
    by_node_map,
    flat_tensors,
    is_composite,
    number_in,
    written_by,
)
from rootdk.frontends._torch.frames import Frames
from rootdk.frontends._torch.identity import Identities, Retainer, Window
from rootdk.frontends._torch.lowering import Lowered, lower

__all__ = ["Recorder"]

_SIDES_HELD = 32


class Recorder(TorchDispatchMode):
    """A dispatch mode that keeps the graph; ``values`` answers questions about tensors."""

    supports_higher_order_operators = True
    # Tests set this, so that a fault of the tracer is seen as one.
    strict = False

    def __init__(self, budget: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.listener: Listener | None = None
        self.identities = Identities(self._rebuilt)
        self.retainer = Retainer(budget)
        self.values = TensorValues()
        self.unhandled: Counter[tuple[str, str]] = Counter()
        self.before_write: Callable[[torch.Tensor], None] = lambda tensor: None
        self.scope: tuple[int, ...] = ()
        self.module_path = ""
        self.autocast: str | None = None
        self.calls_with_products: set[int] = set()
        self.operations = 0
        self.softmax_sizes: dict[int, int] = {}
        self.faults: list[tuple[Node, str]] = []
        self._index = 0
        self._sides: deque[Node] = deque()
        self._spent: deque[Node] = deque()
        self._products: deque[Node] = deque()
        self.frames = Frames()

    # -- leaves --------------------------------------------------------------------------------

    def leaf(self, tensor: torch.Tensor, op: str, kind: Kind) -> Node:
        """Register a tensor that exists before the forward pass."""
        node = self._node(op, (), tensor, kind, {"tensor": tensor})
        if op in {"constant", "parameter"} and tensor.numel() == 1:
            node.value = number_in(tensor)
        self.identities.bind(tensor, node, fresh=False)
        return node

    def _found(self, tensor: torch.Tensor) -> Node:
        node = self.identities.find(tensor)
        if node is not None:
            return node
        # Never seen: a constant made outside (one number cannot hold a projection's output).
        single = tensor.numel() == 1
        kind = Kind.CONSTANT if single or not tensor.is_floating_point() else Kind.UNKNOWN
        if tensor.is_complex():
            kind = Kind.UNKNOWN
        node = self._node("constant" if kind == Kind.CONSTANT else "unknown", (), tensor, kind, {})
        if single:
            node.value = number_in(tensor)
        if tensor.numel() <= SIDE_ENTRIES:
            node.attrs["tensor"] = tensor
        self.identities.bind(tensor, node, fresh=False)
        return node

    def _node(
        self,
        op: str,
        inputs: tuple[Node, ...],
        tensor: torch.Tensor,
        kind: Kind,
        attrs: dict[str, Any],
    ) -> Node:
        self._index += 1
        return Node(
            self._index,
            op,
            inputs,
            shape=tuple(tensor.shape),
            dtype=str(tensor.dtype).removeprefix("torch."),
            kind=kind,
            attrs=attrs,
            scope=self.scope,
            module_path=self.module_path,
        )

    def _rebuilt(
        self, old: Node, new: Node, whole: bool, tensor: torch.Tensor, window: Window
    ) -> Node:
        """The node of an alias after another alias of its storage was written to."""
        if whole:
            attrs: dict[str, Any] = {"name": "write through an alias"}
            same = math.prod(new.shape) == math.prod(old.shape) and window.dense
            op = "identity" if new.shape == old.shape else "view" if same else "rearrange"
            node = self._node(op, (new,), tensor, new.kind, attrs)
            node.on_scores, node.weights_of = new.on_scores, new.weights_of
        else:
            kind = max(old.kind, new.kind)
            attrs = {"name": "partial write", "window": window}
            node = self._node("assemble", (old, new), tensor, kind, attrs)
            node.on_scores = max(old.on_scores, new.on_scores)
            node.weights_of = (*old.weights_of, *new.weights_of)
        node.source = new.source
        return node

    # -- the mode ------------------------------------------------------------------------------

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        self.operations += 1
        if not isinstance(func, torch._ops.OpOverload):
            return self._higher_order(func, args, kwargs)
        name = func._schema.name.removeprefix("aten::")
        if is_composite(func) and "scaled_dot_product" not in name:
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        mutated = written_by(func, args, kwargs)
        for tensor in mutated:
            self.retainer.about_to_write(tensor)
            self.before_write(tensor)
        inputs = self._inputs_before(func, args, kwargs)
        out = func(*args, **kwargs)
        self._record(func, name, args, kwargs, out, mutated, inputs)
        return out

    def _higher_order(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        name = str(func)
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        inputs = tuple(self._found(tensor) for tensor in tensors)
        out = func(*args, **kwargs)
        first = out[0] if isinstance(out, (tuple, list)) else out
        if isinstance(first, torch.Tensor):
            kind = max((n.kind for n in inputs), default=Kind.UNKNOWN)
            node = self._node("fused", inputs, first, kind, {"name": name})
            node.source = self.frames.source(self.module_path, 3)
            self.identities.bind(first, node, fresh=True)
            self._tell_safely(node, name, tensors, first, args, kwargs, out)
        return out

    def _inputs_before(
        self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> dict[int, Node]:
        """The nodes of all tensor arguments as they are before the call."""
        return {id(t): self._found(t) for t in flat_tensors((*args, *kwargs.values()))}

    def _record(
        self,
        func: Any,
        name: str,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        out: Any,
        mutated: list[torch.Tensor],
        before: dict[int, Node],
    ) -> None:
        outputs = list(out) if isinstance(out, (tuple, list)) else [out]
        if not mutated and not any(isinstance(t, torch.Tensor) for t in outputs):
            return
        lowered = self._lower(func, name, args, kwargs, out)
        sources = [t for t in lowered.inputs if isinstance(t, torch.Tensor)]
        inputs = tuple(before.get(id(t)) or self._found(t) for t in sources)
        kind = kind_of(lowered.op, inputs)
        frames = self.frames.source(self.module_path, 3)
        for position, tensor in enumerate(outputs):
            if not isinstance(tensor, torch.Tensor):
                continue
            attrs = dict(lowered.attrs)
            if lowered.op == "mul":
                attrs["overload"] = func._overloadname
            if lowered.each is not None:
                attrs.update(lowered.each[position])
            if position and lowered.each is None:
                attrs["output"] = position
            node = self._node(lowered.op, inputs, tensor, kind, attrs)
            node.source = frames
            self._describe(node, func, args, kwargs, sources, tensor)
            self._bind(node, tensor, sources, mutated, func)
            self._tell_safely(node, name, sources, tensor, args, kwargs, out)
            if lowered.op in {"norm", "fused", "dropout"}:
                break
        if lowered.op == "opaque" and kind >= Kind.PARAMETER:
            self._note_unhandled(str(lowered.attrs.get("name")))

    def _lower(
        self, func: Any, name: str, args: Sequence[Any], kwargs: dict[str, Any], out: Any
    ) -> Lowered:
        if func._schema.name.startswith("aten::"):
            if "scaled_dot_product" in name or name in _WHOLE_LAYERS:
                return Lowered("fused", flat_tensors((*args, *kwargs.values())), {"name": name})
            return lower(name, args, kwargs, out)
        if func._schema.name.startswith(("prim::", "prims::")):
            return lower(name.split("::")[-1], args, kwargs, out)
        tensors = flat_tensors((*args, *kwargs.values()))
        return Lowered("opaque", tensors, {"name": func._schema.name, "custom": True})

    def _bind(
        self,
        node: Node,
        tensor: torch.Tensor,
        sources: list[torch.Tensor],
        mutated: list[torch.Tensor],
        func: Any,
    ) -> None:
        if any(tensor is m for m in mutated):
            self.identities.write(tensor, node)
        else:
            view = func.is_view or node.op in LAYOUT
            self.identities.bind(tensor, node, fresh=not view)
        made = node.op not in LAYOUT and node.on_scores != SCORES
        if made and node.kind >= Kind.PARAMETER and tensor.is_floating_point() and tensor.dim():
            self.retainer.keep(node, tensor.detach())

    def _describe(
        self,
        node: Node,
        func: Any,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        sources: list[torch.Tensor],
        tensor: torch.Tensor,
    ) -> None:
        inputs = node.inputs
        if node.kind <= Kind.PARAMETER and tensor.numel() == 1 and node.op != "random":
            node.value = number_in(tensor)
        node.on_scores = scores_flag(node) if tensor.is_floating_point() else 0
        node.weights_of = inherited_weights(node, self.softmax_sizes)
        if node.op == "softmax":
            # Whatever it is over: what it weighs up is no query-key product.
            node.weights_of = (*node.weights_of, node.index)
            self.softmax_sizes[node.index] = tensor.numel()
        if (
            node.op in {"matmul", "linear", "conv"}
            and any(source.kind == Kind.PARAMETER for source in inputs[:2])
            and self.scope
        ):
            self.calls_with_products.add(self.scope[-1])
        self._hold_sides(node, sources)
        if node.op == "matmul" and node.on_scores:
            node.attrs["operands"] = (sources[0].detach(), sources[1].detach())
            self._hold_product(node)
        elif node.op in {"sum", "mean"} and inputs and "factors" in inputs[0].attrs:
            node.attrs["operands"] = inputs[0].attrs["factors"]
        elif node.op == "mul" and len(sources) == 2 and may_be_product(node):
            node.attrs["factors"] = (sources[0].detach(), sources[1].detach())
            self._hold_product(node)
        if node.on_scores != SCORES and node.kind >= Kind.PARAMETER:
            node.attrs["call"] = (
                func,
                by_node(args, self.identities),
                by_node_map(kwargs, self.identities),
                inputs,
            )

    def _hold_sides(self, node: Node, sources: list[torch.Tensor]) -> None:
        """Keep the side operands of arithmetic alive for the walk."""
        if node.op not in _ARITHMETIC or len(sources) < 2:
            return
        for source, tensor in zip(node.inputs, sources, strict=True):
            if node.on_scores:
                if source.on_scores == 0 or source.index not in node.weights_of:
                    source.attrs["tensor"] = tensor.detach()
                    self._sides.append(source)
            elif source.kind != Kind.ACTIVATION or source.value is not None:
                if tensor.numel() <= SIDE_ENTRIES:
                    source.attrs["tensor"] = tensor.detach()
            elif tensor.numel() <= 65536 and tensor.dim() and tensor.shape[-1] == 1:
                source.attrs["tensor"] = tensor.detach()
        while len(self._sides) > _SIDES_HELD:
            self._sides.popleft().attrs.pop("tensor", None)

    def _hold_product(self, node: Node) -> None:
        self._products.append(node)
        while len(self._products) > 8:
            old = self._products.popleft()
            old.attrs.pop("operands", None)
            old.attrs.pop("factors", None)

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

    def _tell_safely(self, node: Node, name: str, *moment: Any) -> None:
        """A fault of ours costs a site, never the model's run."""
        try:
            self._tell(node, name, *moment)
        except Exception as error:
            if self.strict:
                raise
            first = str(error).splitlines()[0] if str(error) else ""
            said = f"{type(error).__name__}: {first}"
            self.faults.append((node, said))

    def _tell(
        self,
        node: Node,
        name: str,
        sources: list[torch.Tensor],
        tensor: torch.Tensor,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        out: Any,
    ) -> None:
        listener = self.listener
        if listener is None:
            return
        if node.op == "fused":
            if not listener.on_fused(name, node, args, kwargs, out):
                self._note_unhandled(f"aten.{name}")
        elif node.op == "softmax" and may_be_scores(node.inputs[0]):
            listener.on_softmax(node, sources[0], tensor)
        elif node.op in {"exp", "exp2"} and node.inputs[0].on_scores:
            listener.on_exponential(node, sources[0])
        elif node.op == "exp" and behind_layout(node.inputs[0]).op == "log_softmax":
            listener.on_log_softmax(node, behind_layout(node.inputs[0]), tensor)
        elif (
            node.op in {"div", "mul"}
            and len(node.inputs) == 2
            and (node.on_scores or "unnormalised" in behind_layout(node.inputs[0]).attrs)
        ):
            listener.on_division(node, tensor)
        elif node.op in {"matmul", "sum"} and meets_values(node):
            listener.on_weights_product(node, sources)
        elif node.op == "matmul" and SCORES in [s.on_scores for s in node.inputs[:2]]:
            listener.on_unnormalised(node, sources)
        if "scalar" in node.attrs and node.op in {"mul", "div"}:
            listener.on_output_factor(node)

    def _note_unhandled(self, name: str) -> None:
        self.unhandled[name, self.module_path] += 1


_WHOLE_LAYERS = frozenset(
    {
        "_native_multi_head_attention",
        "_transformer_encoder_layer_fwd",
        "_triton_multi_head_attention",
    }
)
_ARITHMETIC = frozenset("mul div add sub where masked_fill maximum matmul cat clamp".split())
