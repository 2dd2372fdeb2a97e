"""Run a recorded call again, on other values of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from rootdk.frontends._graph.node import Node
from rootdk.frontends._sites.numbers import Floats
from rootdk.frontends._sites.replay import LostError, ValueOf
from rootdk.frontends._sites.values import ArrayValues
from rootdk.frontends._torch.identity import Window

__all__ = ["run_again", "run_moved"]


def run_again(node: Node, value_of: ValueOf, values: ArrayValues) -> torch.Tensor:
    """The value of ``node`` when its inputs have the values that ``value_of`` gives."""
    dtype = getattr(torch, node.dtype)
    if node.op == "identity" and node.inputs and node.attrs.get("name") == "copy":
        copied: torch.Tensor = value_of(node.inputs[0])
        return copied.to(dtype).expand(node.shape)
    window = node.attrs.get("window")
    if window is not None:
        return _written(node, window, value_of)
    if node.op == "constant":
        return torch.zeros(node.shape, dtype=dtype)
    recorded = node.attrs.get("call")
    if recorded is None and node.op in {"identity", "view"} and node.inputs:
        moved: torch.Tensor = value_of(node.inputs[0])
        return moved.reshape(node.shape)
    if recorded is None:
        held: torch.Tensor | None = values.tensor(node)
        if held is None:
            raise LostError(f"{node.op} cannot be run again")
        return held
    func, args, kwargs, _inputs = recorded
    given = [_one(value, value_of) for value in args]
    if func._schema.is_mutable and given and isinstance(given[0], torch.Tensor):
        given[0] = given[0].clone()
    out = func(*given, **{key: _one(value, value_of) for key, value in kwargs.items()})
    if isinstance(out, (tuple, list)):
        out = out[_output(node, out)]
    if not isinstance(out, torch.Tensor):
        raise LostError(f"{node.op} gives no tensor")
    return out


def run_moved(node: Node, inputs: Sequence[Floats], values: ArrayValues) -> Floats:
    """The entries of ``node``, which only moves them, for other ``inputs`` in float64."""
    window = node.attrs.get("window")
    if window is not None:
        given = {id(s): torch.from_numpy(a) for s, a in zip(node.inputs, inputs, strict=True)}
        return np.asarray(_written(node, window, lambda source: given[id(source)]))
    recorded = node.attrs.get("call")
    if recorded is None:
        raise LostError(f"{node.op} cannot be run again")
    func, args, kwargs, _inputs = recorded
    device = next((t.device for t in _leaves([args, kwargs]) if isinstance(t, torch.Tensor)), None)
    floating = iter([torch.from_numpy(a).to(device or "cpu") for a in inputs])
    sources = iter(node.inputs)

    def in_place_of(leaf: Any) -> Any:
        source = next(sources, None)
        if source is not None and "float" in source.dtype:
            return next(floating)
        held = leaf if isinstance(leaf, torch.Tensor) else values.tensor(leaf)
        if held is None:
            raise LostError("an index is no longer held")
        return held

    args, kwargs = _replaced(args, in_place_of), _replaced(kwargs, in_place_of)
    if func._schema.is_mutable:
        args = (args[0].clone(), *args[1:])
    out = func(*args, **kwargs)
    if not isinstance(out, torch.Tensor):
        raise LostError(f"{node.op} gives no tensor")
    return np.asarray(out.cpu())


def _leaves(value: Any) -> Iterator[Any]:
    """The tensors, and the nodes in their place, in the order in which they were recorded."""
    if isinstance(value, (torch.Tensor, Node)):
        yield value
    elif isinstance(value, dict):
        yield from _leaves(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)


def _replaced(value: Any, by: Callable[[Any], Any]) -> Any:
    if isinstance(value, (torch.Tensor, Node)):
        return by(value)
    if isinstance(value, dict):
        return {key: _replaced(item, by) for key, item in value.items()}
    if type(value) in {list, tuple}:
        return type(value)(_replaced(item, by) for item in value)
    return value


def _written(node: Node, window: Window, value_of: ValueOf) -> torch.Tensor:
    """The old entries with a part of them written over."""
    old, new = (value_of(source) for source in node.inputs)
    if window.offset < 0:
        raise LostError("the write begins before the tensor")
    strides = window.whole_stride
    reach = sum((n - 1) * s for n, s in zip(node.shape, strides, strict=True)) + 1
    part = sum((n - 1) * s for n, s in zip(window.size, window.stride, strict=True)) + 1
    flat = new.new_zeros(max(reach, window.offset + part))
    whole: torch.Tensor = flat.as_strided(node.shape, strides)
    whole.copy_(old)
    flat.as_strided(window.size, window.stride, window.offset).copy_(new.expand(window.size))
    return whole


def _output(node: Node, out: Any) -> int:
    if "output" in node.attrs:
        return int(node.attrs["output"])
    if "at" in node.attrs:
        return int(node.attrs["at"])
    start, dim = 0, node.attrs.get("dim", 0)
    for position, item in enumerate(out):
        if "start" in node.attrs and start == node.attrs["start"]:
            return position
        start += item.shape[dim]
    return 0


def _one(value: Any, value_of: ValueOf) -> Any:
    if isinstance(value, Node):
        return value_of(value)
    if type(value) in {list, tuple}:
        return type(value)(_one(item, value_of) for item in value)
    return value
