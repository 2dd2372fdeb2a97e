"""The arguments of a dispatched call: which tensors, which nodes, which numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch

from rootdk.frontends._graph.node import Kind, Node
from rootdk.frontends._sites.recording import SIDE_ENTRIES

__all__ = [
    "Schema",
    "by_node",
    "by_node_map",
    "flat_tensors",
    "is_composite",
    "is_index",
    "number_in",
    "ragged",
    "tensors_in",
    "written_by",
]


def number_in(tensor: torch.Tensor) -> float | None:
    if tensor.is_complex() or tensor.device.type == "meta":
        return None
    if tensor._is_zerotensor():
        # The tangent of a constant in forward-mode differentiation has no memory.
        return 0.0
    return float(tensor.detach().reshape(-1)[0].item())


def is_index(tensor: torch.Tensor) -> bool:
    """Whether a tensor holds whole numbers (positions, choices), and no truth values."""
    dtype = tensor.dtype
    return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)


def is_composite(func: Any) -> bool:
    return bool(
        torch.is_inference_mode_enabled()
        and func._can_decompose()
        and torch._C._dispatch_has_kernel_for_dispatch_key(
            func.name(), torch._C.DispatchKey.CompositeImplicitAutograd
        )
    )


def flat_tensors(values: Iterable[Any]) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found.extend(flat_tensors(value))
    return found


def tensors_in(values: Any) -> list[torch.Tensor]:
    """The tensors in what a module takes or returns, however nested."""
    if isinstance(values, torch.Tensor):
        return [values]
    if isinstance(values, Mapping):
        return [t for v in values.values() for t in tensors_in(v)]
    if isinstance(values, (list, tuple, set)):
        return [t for v in values for t in tensors_in(v)]
    return []


def by_node_map(values: dict[str, Any], nodes: Mapping[int, Node]) -> dict[str, Any]:
    return {key: by_node(value, nodes) for key, value in values.items()}


def by_node(values: Any, nodes: Mapping[int, Node]) -> Any:
    """Arguments with whatever was computed replaced by its node; ``nodes`` go by identity.

    So no activation is held, and a factor on a learned query can be left out of a second run.
    """
    if isinstance(values, torch.Tensor):
        node = nodes.get(id(values))
        if node is not None and node.kind >= Kind.PARAMETER and node.op != "parameter":
            return node
        return node if node is not None and values.numel() > SIDE_ENTRIES else values.detach()
    if isinstance(values, (list, tuple)):
        return (
            type(values)([by_node(v, nodes) for v in values])
            if type(values) in {list, tuple}
            else values
        )
    return values


def ragged(tensors: Iterable[torch.Tensor]) -> bool:
    """Whether one of the tensors is nested: its axes have no one size to follow."""
    return any(tensor.is_nested for tensor in tensors)


@dataclass(frozen=True, kw_only=True)
class Schema:
    """What the schema of an operator says; torch makes the schema anew each time it is asked for.

    Attributes
    ----------
    name : str
        With its namespace, without the overload.
    overload : str
        The overload.
    writes : tuple of (int, str)
        Position and name of the arguments that are written in place.
    is_view : bool
        Whether what it returns is a view of what it takes.
    """

    name: str
    overload: str
    writes: tuple[tuple[int, str], ...]
    is_view: bool

    @classmethod
    def of(cls, func: Any) -> Self:
        """Return what is said of an operator."""
        schema = func._schema
        writes = [
            (position, argument.name)
            for position, argument in enumerate(schema.arguments if schema.is_mutable else ())
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        if "batch_norm" in schema.name:
            # Running statistics are written without a word in the schema.
            writes = [(3, ""), (4, "")]
        return cls(
            name=str(schema.name),
            overload=func._overloadname,
            writes=tuple(writes),
            is_view=bool(func.is_view),
        )


def written_by(schema: Schema, args: Sequence[Any], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The tensors that a call writes in place, as its schema says, or as is known."""
    found: list[torch.Tensor] = []
    for position, name in schema.writes:
        value = args[position] if position < len(args) else kwargs.get(name)
        values = value if isinstance(value, (list, tuple)) else [value]
        found.extend(v for v in values if isinstance(v, torch.Tensor))
    return found
