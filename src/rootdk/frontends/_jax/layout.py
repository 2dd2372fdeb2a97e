"""Primitives that only move, repeat or join entries."""

from __future__ import annotations

from typing import Any

import numpy as np

from rootdk.frontends._graph.node import Kind
from rootdk.frontends._jax.step import Step, entry, same
from rootdk.frontends._jax.tape import Value

__all__ = ["moved", "reshaped"]

same(
    "identity",
    *"convert_element_type copy copy_p stop_gradient optimization_barrier reduce_precision "
    "sharding_constraint device_put real imag mesh_cast reshard pvary pbroadcast".split(),
)
same("rearrange", "rev", "bitcast_convert_type", "tile")


def moved(tape: Any, value: Value, order: tuple[int, ...]) -> Value:
    """The axes in another order, as a node of its own where that changes anything."""
    if order == tuple(range(len(order))):
        return value
    array = np.transpose(value.array, order)
    run = lambda x: np.transpose(x, order)  # noqa: E731
    out: Value = tape.add("permute", [value], array, run, {"dims": order}, name="transpose")
    return out


def reshaped(tape: Any, value: Value, shape: tuple[int, ...]) -> Value:
    """The entries in another shape, as a node of its own where that changes anything."""
    if shape == value.array.shape:
        return value
    run = lambda x: np.reshape(x, shape)  # noqa: E731
    out: Value = tape.add("view", [value], value.array.reshape(shape), run, name="reshape")
    return out


@entry("reshape")
def _reshape(step: Step) -> list[Value]:
    return step.whole("view") if step.params.get("dimensions") is None else step.opaque()


@entry("squeeze")
def _squeeze(step: Step) -> list[Value]:
    return step.whole("view")


@entry("expand_dims")
def _expand(step: Step) -> list[Value]:
    return step.whole("view")


@entry("transpose")
def _transpose(step: Step) -> list[Value]:
    order = tuple(int(d) for d in step.params["permutation"])
    return step.whole("permute", dims=order)


@entry("broadcast_in_dim")
def _broadcast(step: Step) -> list[Value]:
    """Axes of size 1 are put where the new ones come, and then grow."""
    (source, *_) = step.values
    shape = tuple(int(n) for n in step.array.shape)
    dims = [int(d) for d in step.params["broadcast_dimensions"]]
    if source.host is None or len(step.values) > 1:
        return step.opaque()
    spread = [1] * len(shape)
    for at, size in zip(dims, source.host.shape, strict=True):
        spread[at] = size
    if not shape:
        return step.whole("identity")
    between = reshaped(step.tape, source, tuple(spread))
    if tuple(spread) == shape:
        return [Value(step.given[0], step.array, between.node)]
    run = lambda x: np.broadcast_to(x, shape)  # noqa: E731
    return [step.out("expand", [between], run)]


@entry("slice")
def _slice(step: Step) -> list[Value]:
    starts = step.params["start_indices"]
    limits = step.params["limit_indices"]
    strides = step.params["strides"] or (1,) * len(starts)
    return [_sliced(step, step.values[0], starts, limits, strides)]


def _sliced(step: Step, value: Value, starts: Any, limits: Any, strides: Any) -> Value:
    """One node for each axis that is cut."""
    for dim, (start, limit, stride) in enumerate(zip(starts, limits, strides, strict=True)):
        if start == 0 and limit == value.array.shape[dim] and stride == 1:
            continue
        at = (slice(None),) * dim + (slice(start, limit, stride),)
        attrs = {"dim": dim, "start": int(start), "step": int(stride)}
        run = lambda x, at=at: x[at]  # noqa: E731
        value = step.tape.add("slice", [value], value.array[at], run, attrs, name="slice")
    return Value(step.given[0], value.host, value.node)


@entry("dynamic_slice")
def _dynamic_slice(step: Step) -> list[Value]:
    """A slice at an index that is known while it runs; one that the data decide is a choice."""
    source, *starts = step.values
    sizes = step.params["slice_sizes"]
    if source.host is None or any(s.node.kind > Kind.INDEX for s in starts):
        return step.whole("gather")
    first = [
        int(np.clip(int(s.array), 0, n - size))
        for s, n, size in zip(starts, source.host.shape, sizes, strict=True)
    ]
    limits = [f + n for f, n in zip(first, sizes, strict=True)]
    return [_sliced(step, source, first, limits, (1,) * len(first))]


@entry("split")
def _split(step: Step) -> list[Value]:
    axis, start, out = int(step.params["axis"]), 0, []
    (source,) = step.values
    for size, given in zip(step.params["sizes"], step.given, strict=True):
        at = (slice(None),) * axis + (slice(start, start + size),)
        attrs = {"dim": axis, "start": start, "step": 1}
        run = lambda x, at=at: x[at]  # noqa: E731
        part = step.tape.add("slice", [source], source.array[at], run, attrs, name="split")
        out.append(Value(given, part.host, part.node))
        start += size
    return out


@entry("concatenate")
def _concatenate(step: Step) -> list[Value]:
    return step.whole("cat", dim=int(step.params["dimension"]))


@entry("stack")
def _stack(step: Step) -> list[Value]:
    return step.whole("stack")


@entry("unstack")
def _unstack(step: Step) -> list[Value]:
    axis, out = int(step.params["axis"]), []
    (source,) = step.values
    for number, given in enumerate(step.given):
        at: Any = (*(slice(None),) * axis, number)
        run = lambda x, at=at: x[at]  # noqa: E731
        attrs = {"dim": axis, "at": number}
        part = step.tape.add("select", [source], source.array[at], run, attrs, name="unstack")
        out.append(Value(given, part.host, part.node))
    return out


@entry("pad")
def _pad(step: Step) -> list[Value]:
    """Padding moves entries if nothing is cut and nothing but 0 comes in."""
    filling = step.values[1]
    cut = any(low < 0 or high < 0 for low, high, _ in step.params["padding_config"])
    if cut or filling.node.value is None:
        return step.opaque()
    return [step.out("rearrange", step.values[:1], lambda x: step.bind(x, filling.array))]


@entry("gather")
def _gather(step: Step) -> list[Value]:
    table, indices = step.values
    looked_up = table.node.kind == Kind.PARAMETER and indices.node.kind == Kind.INDEX
    return step.whole("embedding" if looked_up else "gather")


@entry("scatter", "dynamic_update_slice", "scatter-add", "scatter_add")
def _written(step: Step) -> list[Value]:
    sources = [v for v in step.values if v.node.dtype.startswith(("float", "bfloat"))]
    plain = [v for v in step.values if v not in sources]
    position = [v in sources for v in step.values]
    rest = iter(v.host for v in plain)
    fixed = [None if moving else next(rest) for moving in position]

    def run(*arrays: Any) -> Any:
        given = iter(arrays)
        return step.bind(*(next(given) if f is None else f for f in fixed))

    if any(v.node.kind > Kind.INDEX for v in plain):
        return step.opaque()
    return [step.out("assemble", sources, run, beside=plain)]
