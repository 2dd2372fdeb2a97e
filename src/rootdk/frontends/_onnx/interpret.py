"""Run a graph operation by operation: what is no longer needed is let go of at once."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from rootdk._lib.errors import TargetError
from rootdk.frontends._graph.node import Kind
from rootdk.frontends._onnx.kernels import Kernels
from rootdk.frontends._onnx.leaves import Uses, is_learned
from rootdk.frontends._onnx.loading import Loaded
from rootdk.frontends._onnx.lowering import lower
from rootdk.frontends._onnx.places import place_of
from rootdk.frontends._onnx.recorder import Recorder
from rootdk.frontends._onnx.tensors import Array, Operation, Tensor

__all__ = ["Interpreter"]

_HIDING = frozenset({"Softmax", "Attention", "LogSoftmax"})


class Interpreter:
    """Runs one graph; ``values`` are the tensors that are alive, by name."""

    def __init__(self, loaded: Loaded, recorder: Recorder) -> None:
        self._loaded = loaded
        self._recorder = recorder
        self._kernels = Kernels(loaded.opsets, loaded.model.ir_version)
        self._uses = Uses(loaded.graph)
        self._version = loaded.opsets.get("", loaded.opsets.get("ai.onnx", 1))
        self.operations = 0

    @property
    def by_reference(self) -> set[str]:
        """The kinds of operations that onnxruntime could not run."""
        return self._kernels.by_reference

    def run(self, inputs: Mapping[str, Array]) -> None:
        """Run the graph on its inputs.

        Raises
        ------
        TargetError
            If an operation cannot be run; the message names it.
        """
        values: dict[str, Any] = {}
        for name, array in inputs.items():
            floating = array.dtype.kind == "f" or array.dtype.name == "bfloat16"
            kind = Kind.ACTIVATION if floating else Kind.INDEX
            values[name] = self._recorder.leaf(array, "input", kind, name)
        self._nodes(self._loaded.graph, values, {v.name for v in self._loaded.graph.output})

    def _nodes(self, graph: onnx.GraphProto, values: dict[str, Any], kept: set[str]) -> None:
        left = Counter(name for node in graph.node for name in _needs(node))
        for node in graph.node:
            self.operations += 1
            self._node(node, values)
            for name in _needs(node):
                left[name] -= 1
                if not left[name] and name not in kept:
                    values.pop(name, None)
            for name in node.output:
                if not left[name] and name not in kept:
                    values.pop(name, None)

    def _node(self, node: onnx.NodeProto, values: dict[str, Any]) -> None:
        if node.op_type == "Constant" and node.output[0] in self._loaded.weights:
            return
        self._recorder.at(place_of(node))
        if node.op_type == "If":
            self._branch(node, values)
            return
        inputs = [self._value(name, values) for name in node.input]
        outer = self._outer(node, values)
        self._refuse_huge(node, inputs)
        arrays = [value.array if isinstance(value, Tensor) else value for value in inputs]
        outputs = self._kernels.run(node, arrays, outer)
        made: Sequence[Any]
        plain = all(value is None or isinstance(value, Tensor) for value in inputs)
        if outer or any(a.type in _GRAPHS for a in node.attribute):
            made = self._whole(node, inputs, outputs)
        elif plain and not any(isinstance(value, list) for value in outputs):
            made = lower(self._operation(node, inputs, outputs), self._recorder)
        else:
            made = self._unknown(outputs)
        padded = [*made, *[None] * len(node.output)]
        named = zip(node.output, padded, strict=False)
        values.update({name: value for name, value in named if name})

    def _refuse_huge(self, node: onnx.NodeProto, inputs: Sequence[Any]) -> None:
        """A few numbers can ask for any amount of memory: look at them before it is taken."""
        count = _entries_asked_for(node.op_type, inputs)
        if count > MOST_ENTRIES:
            raise TargetError(
                f"{self._loaded.name}: {node.op_type} {node.name!r} asks for {count:.3g} numbers; "
                f"expected at most {MOST_ENTRIES}"
            )

    def _operation(
        self, node: onnx.NodeProto, inputs: Sequence[Tensor | None], outputs: Sequence[Any]
    ) -> Operation:
        kept = {
            position: source.array
            for position, source in enumerate(inputs)
            if source is not None and source.array.size <= _SMALL
        }

        def again(changed: Mapping[int, Array]) -> Sequence[Any]:
            given = {**kept, **changed}
            return self._kernels.run(node, [given.get(i) for i in range(len(node.input))])

        return Operation(
            kind=node.op_type,
            domain=node.domain,
            version=self._version,
            attributes={a.name: helper.get_attribute_value(a) for a in node.attribute},
            inputs=inputs,
            outputs=outputs,
            again=again,
        )

    def _branch(self, node: onnx.NodeProto, values: dict[str, Any]) -> None:
        """Run the branch that the condition chooses, as if it stood in the graph."""
        condition = self._value(node.input[0], values)
        taken = bool(np.any(condition.array))
        graphs = {a.name: a.g for a in node.attribute}
        graph = graphs["then_branch" if taken else "else_branch"]
        inner = dict(values)
        for tensor in graph.initializer:
            inner[tensor.name] = self._constant(onnx.numpy_helper.to_array(tensor), tensor.name)
        self._nodes(graph, inner, {*values, *(v.name for v in graph.output)})
        for name, output in zip(node.output, graph.output, strict=True):
            values[name] = inner.get(output.name)

    def _outer(self, node: onnx.NodeProto, values: dict[str, Any]) -> dict[str, Any]:
        """What the subgraphs of a node take from around them."""
        found = {}
        for name in _free(node):
            value = self._value(name, values)
            if value is not None:
                found[name] = value.array if isinstance(value, Tensor) else value
        return found

    def _whole(
        self, node: onnx.NodeProto, inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> list[Any]:
        """A loop runs as one operation; attention inside it is not seen, and that is said."""
        inside = {n.op_type for a in node.attribute for n in _inner_nodes(a)}
        if inside & _HIDING:
            self._recorder.note_unhandled(f"{node.op_type} with attention inside")
        return self._unknown(outputs)

    def _unknown(self, outputs: Sequence[Any]) -> list[Any]:
        return [
            value
            if value is None or isinstance(value, list)
            else self._recorder.leaf(value, "opaque", Kind.ACTIVATION, "subgraph")
            for value in outputs
        ]

    def _value(self, name: str, values: dict[str, Any]) -> Any:
        if not name:
            return None
        if name in values:
            return values[name]
        weights = self._loaded.weights
        if name not in weights:
            raise TargetError(
                f"{self._loaded.name}: nothing makes {name!r}; expected a whole graph"
            )
        array = weights[name]
        if is_learned(name, weights, self._uses):
            values[name] = self._recorder.leaf(array, "parameter", Kind.PARAMETER, name)
        else:
            values[name] = self._constant(array, name)
        return values[name]

    def _constant(self, array: Array, name: str) -> Tensor:
        return self._recorder.leaf(array, "constant", Kind.CONSTANT, name)


_SMALL = 1 << 16
MOST_ENTRIES = 1 << 31
"""The most numbers that an operation may make out of a few."""


def _entries_asked_for(kind: str, inputs: Sequence[Any]) -> float:
    """How many numbers an operation makes of a shape, or of ends, that it is given."""
    arrays = [source.array for source in inputs if isinstance(source, Tensor)]
    if kind == "ConstantOfShape" and arrays:
        return math.prod(float(n) for n in arrays[0].reshape(-1))
    if kind == "Expand" and len(arrays) > 1:
        return math.prod(float(max(n, 1)) for n in arrays[1].reshape(-1))
    if kind == "Tile" and len(arrays) > 1:
        return float(arrays[0].size) * math.prod(float(n) for n in arrays[1].reshape(-1))
    if kind == "Range" and len(arrays) == 3:
        start, limit, delta = (float(a.reshape(-1)[0]) for a in arrays)
        return (limit - start) / delta if delta else math.inf
    return 0.0


_GRAPHS = frozenset({onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS})


def _inner_nodes(attribute: onnx.AttributeProto) -> Iterator[onnx.NodeProto]:
    for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
        for node in graph.node:
            yield node
            for inner in node.attribute:
                yield from _inner_nodes(inner)


def _free(node: onnx.NodeProto) -> set[str]:
    """The names that subgraphs of a node use and do not make."""
    found: set[str] = set()
    for attribute in node.attribute:
        for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            made = {v.name for v in graph.input} | {t.name for t in graph.initializer}
            needed = {v.name for v in graph.output}
            for inner in graph.node:
                needed |= {name for name in inner.input if name} | _free(inner)
                made |= set(inner.output)
            found |= needed - made
    return found


def _needs(node: onnx.NodeProto) -> set[str]:
    return {name for name in node.input if name} | _free(node)
