"""Records the dataflow of one forward pass at the dispatch level.

The recorder sees every ATen call, after autograd and after composite functions were taken
apart, whatever the model's Python looks like. It keeps one node a tensor, and hands softmaxes,
fused attention and products with weights to a listener at the moment they run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from rootdk.frontends._graph.node import LAYOUT, SCORES, Kind, Node
from rootdk.frontends._graph.tags import kind_of
from rootdk.frontends._sites.numbers import Floats
from rootdk.frontends._sites.recording import SIDE_ENTRIES, Recording
from rootdk.frontends._sites.replay import ValueOf
from rootdk.frontends._torch.again import run_again, run_moved
from rootdk.frontends._torch.arguments import (
    Schema,
    by_node,
    by_node_map,
    flat_tensors,
    is_composite,
    is_index,
    number_in,
    ragged,
    written_by,
)
from rootdk.frontends._torch.frames import Frames
from rootdk.frontends._torch.identity import Identities, Window
from rootdk.frontends._torch.lowering import Lowered, lower
from rootdk.frontends._torch.quantised import PACKED, packed_product
from rootdk.frontends._torch.retainer import Retainer
from rootdk.records import Source

__all__ = ["Recorder"]


class Recorder(TorchDispatchMode, Recording):
    """A dispatch mode that keeps the graph; ``values`` answers questions about tensors."""

    supports_higher_order_operators = True
    prefix = "aten."
    retainer: Retainer

    def __init__(self, budget: int) -> None:
        TorchDispatchMode.__init__(self)
        Recording.__init__(self)
        self.identities = Identities(self._rebuilt)
        self.retainer = Retainer(budget)
        self.before_write: Callable[[torch.Tensor], None] = _nothing
        self.frames = Frames()
        self.module_call: tuple[int, FrameType | None] | None = None
        self._schemas: dict[Any, Schema] = {}
        self._dtypes: dict[torch.dtype, str] = {}

    def forget(self) -> None:
        """Let go of all tensors; see ``Recording``."""
        super().forget()
        self.identities.clear()
        self.before_write = _nothing

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
        dtype = self._dtypes.get(tensor.dtype)
        if dtype is None:
            dtype = self._dtypes[tensor.dtype] = str(tensor.dtype).removeprefix("torch.")
        return self.new_node(
            op,
            inputs,
            shape=tuple(tensor.shape),
            dtype=dtype,
            kind=kind,
            attrs=attrs,
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
        name = self._name(func)
        if is_composite(func) and "scaled_dot_product" not in name:
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        mutated = written_by(self._schema(func), args, kwargs)
        for tensor in mutated:
            self.retainer.about_to_write(tensor)
            self.before_write(tensor)
        given = flat_tensors((*args, *kwargs.values()))
        inputs = {} if ragged(given) else {id(t): self._found(t) for t in given}
        out = func(*args, **kwargs)
        if ragged((*given, *flat_tensors([out]))):
            self.note_unhandled(f"{name} of nested tensors")
            return out
        self._record(func, name, args, kwargs, out, mutated, inputs)
        return out

    def _source(self) -> Source:
        """Where the operation that is recorded stands."""
        return self.frames.source(self.module_path, self.module_call, 4)

    def _name(self, func: Any) -> str:
        return self._schema(func).name.removeprefix("aten::")

    def _schema(self, func: Any) -> Schema:
        schema = self._schemas.get(func)
        if schema is None:
            schema = self._schemas[func] = Schema.of(func)
        return schema

    def _higher_order(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        name = str(func)
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        inputs = tuple(self._found(tensor) for tensor in tensors)
        out = func(*args, **kwargs)
        first = out[0] if isinstance(out, (tuple, list)) else out
        if isinstance(first, torch.Tensor):
            kind = max((n.kind for n in inputs), default=Kind.UNKNOWN)
            node = self._node("fused", inputs, first, kind, {"name": name})
            node.source = self._source()
            self.identities.bind(first, node, fresh=True)
            self.tell(node, name, tensors, first, args, kwargs, out)
        return out

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
        if PACKED in lowered.attrs:
            inputs = (*inputs, self._packed_weight(name))
        kind = kind_of(lowered.op, inputs)
        frames = self._source()
        backward = torch._C._current_autograd_node() is not None
        recorded = None
        if kind >= Kind.PARAMETER:
            recorded = (func, by_node(args, before), by_node_map(kwargs, before), inputs)
        for position, tensor in enumerate(outputs):
            if not isinstance(tensor, torch.Tensor):
                continue
            attrs = dict(lowered.attrs) if len(outputs) > 1 else lowered.attrs
            if lowered.op == "mul":
                attrs["overload"] = self._schema(func).overload
            if lowered.each is not None:
                attrs.update(lowered.each[position])
            if position and lowered.each is None:
                attrs["output"] = position
            node = self._node(lowered.op, inputs, tensor, kind, attrs)
            node.source = frames
            self._describe(node, sources, tensor, recorded)
            self._bind(node, tensor, mutated, func)
            if backward:
                # What a gradient multiplies weights by are no values, nor is it scores.
                node.on_scores, node.weights_of = 0, ()
                continue
            self.tell(node, name, sources, tensor, args, kwargs, out)
            if lowered.op in {"norm", "fused", "dropout"}:
                break
        if lowered.op == "opaque" and kind >= Kind.PARAMETER:
            self.note_unhandled(str(lowered.attrs.get("name")))

    def _lower(
        self, func: Any, name: str, args: Sequence[Any], kwargs: dict[str, Any], out: Any
    ) -> Lowered:
        full = self._schema(func).name
        if full.startswith("aten::"):
            if "scaled_dot_product" in name or name in _WHOLE_LAYERS:
                return Lowered("fused", flat_tensors((*args, *kwargs.values())), {"name": name})
            return lower(name, args, kwargs, out)
        if full.startswith(("prim::", "prims::")):
            return lower(name.split("::")[-1], args, kwargs, out)
        packed = packed_product(full, args, out)
        if packed is not None:
            return packed
        tensors = flat_tensors((*args, *kwargs.values()))
        return Lowered("opaque", tensors, {"name": full, "custom": True})

    def _packed_weight(self, name: str) -> Node:
        """A weight that is no tensor, and that nobody will ask for."""
        return self.new_node(
            "parameter", (), shape=(), dtype="int8", kind=Kind.PARAMETER, attrs={"name": name}
        )

    def _bind(
        self,
        node: Node,
        tensor: torch.Tensor,
        mutated: list[torch.Tensor],
        func: Any,
    ) -> None:
        if mutated and any(tensor is m for m in mutated):
            self.identities.write(tensor, node)
        else:
            view = node.op in LAYOUT or self._schema(func).is_view
            self.identities.bind(tensor, node, fresh=not view)
        # Scores are never asked for, and weights are compared while they are at hand.
        large = node.on_scores == SCORES or _holds_weights(node)
        made = node.op not in LAYOUT and not large
        if made and node.kind >= Kind.PARAMETER and tensor.is_floating_point() and tensor.dim():
            self.retainer.keep(node, tensor.detach())

    def _describe(
        self,
        node: Node,
        sources: list[torch.Tensor],
        tensor: torch.Tensor,
        recorded: tuple[Any, ...] | None,
    ) -> None:
        if node.kind <= Kind.PARAMETER and tensor.numel() == 1 and node.op != "random":
            node.value = number_in(tensor)
        self.describe(node, sources, tensor)
        if is_index(tensor) and node.kind >= Kind.PARAMETER and tensor.numel() <= SIDE_ENTRIES:
            # What a router or a search chose cannot always be chosen again.
            node.attrs["tensor"] = tensor.detach()
        elif recorded is not None and (node.on_scores != SCORES or node.op in _REARRANGES):
            node.attrs["call"] = recorded

    def moved(self, node: Node, inputs: Sequence[Floats]) -> Floats:
        """Run an operation that only moves entries on other entries; see ``Holder``."""
        return run_moved(node, inputs, self.values)

    def again(self, node: Node, value_of: ValueOf) -> torch.Tensor:
        """Run a recorded call again; see ``Holder``."""
        return run_again(node, value_of, self.values)


def _nothing(tensor: torch.Tensor) -> None:
    """What is done before a write that nobody has to know of."""


def _holds_weights(node: Node) -> bool:
    """Whether a tensor is a softmax of scores, as it was made or in another dtype, or dropped."""
    while node.op in {"identity", "dropout"} and node.inputs:
        node = node.inputs[0]
    return node.op == "softmax" and bool(node.inputs[0].on_scores)


# Scores are never run again, but what puts them together of parts is run on the places of theirs.
_REARRANGES = frozenset({"rearrange", "gather", "stack", "assemble"})
_WHOLE_LAYERS = frozenset(
    {
        "_native_multi_head_attention",
        "_transformer_encoder_layer_fwd",
        "_triton_multi_head_attention",
    }
)
