"""Run the recorded way from the projections again, without the factors that were claimed."""

from __future__ import annotations

from typing import Any, Protocol

import torch

from rootdk.frontends._graph.node import Kind, Node
from rootdk.frontends._graph.trail import Trail, UnresolvedError
from rootdk.frontends._sites.recompute import Mismatch, eps_of
from rootdk.frontends._sites.values import TensorValues
from rootdk.frontends._torch.identity import Retainer, Window

__all__ = ["check_operand", "require_operand"]


class _LostError(Exception):
    """A value on the way is no longer held, or an operation cannot be run again."""


class _Replay:
    """Run the recorded operations again from the terminals, without the claimed factors."""

    def __init__(
        self,
        trail: Trail,
        retainer: Retainer,
        values: TensorValues,
        scope: tuple[int, ...],
    ) -> None:
        self.trail, self.retainer, self.values, self.scope = trail, retainer, values, scope
        # Where offsets are added, factors are applied where they stand, at their claimed value.
        self.claims = dict(trail.claims) if trail.affine else dict.fromkeys(trail.skipped, 1.0)
        self._memo: dict[int, torch.Tensor] = {}

    def value(self, node: Node, depth: int = 0) -> torch.Tensor:
        if node.index not in self._memo:
            if depth > 200:
                raise _LostError("too long")
            self._memo[node.index] = self._value(node, depth)
        return self._memo[node.index]

    def _value(self, node: Node, depth: int) -> torch.Tensor:
        call = node.attrs.get("exit_of")
        leaves_module = call is not None and call not in self.scope
        if node in self.trail.terminals or leaves_module:
            if node.op == "unknown":
                raise UnresolvedError("the path ends at a tensor that nothing recorded has made")
            held = self.retainer.value(node)
            if self.retainer.was_changed(node):
                raise UnresolvedError(
                    "a tensor on the path was changed outside the traced operations"
                )
            held = held if held is not None else self.values.tensor(node)
            if held is None:
                raise _LostError(f"the value of {node.op} is no longer held")
            return held
        if node.index in self.claims:
            value = self._skipped(node, depth)
            claim = self.claims[node.index]
            return value if claim == 1.0 else value * claim
        if node.op == "identity" and node.inputs and node.attrs.get("name") == "copy":
            source = self.value(node.inputs[0], depth + 1)
            return source.to(getattr(torch, node.dtype)).expand(node.shape)
        window = node.attrs.get("window")
        if window is not None:
            return self._written(node, window, depth)
        if node.op == "constant":
            return torch.zeros(node.shape, dtype=getattr(torch, node.dtype))
        recorded = node.attrs.get("call")
        if recorded is None and node.op in {"identity", "view"} and node.inputs:
            return self.value(node.inputs[0], depth + 1).reshape(node.shape)
        if recorded is None:
            held = self.values.tensor(node)
            if held is None:
                raise _LostError(f"{node.op} cannot be run again")
            return held
        if node.op == "view" and not node.attrs.get("dtype"):
            # A skipped factor may have been what made the entries contiguous.
            return self.value(node.inputs[0], depth + 1).reshape(node.shape)
        func, args, kwargs, _inputs = recorded
        out = func(*self._given(args, depth, func), **self._given_map(kwargs, depth, func))
        if isinstance(out, (tuple, list)):
            out = out[self._output(node, out)]
        if not isinstance(out, torch.Tensor):
            raise _LostError(f"{node.op} gives no tensor")
        return out

    def _skipped(self, node: Node, depth: int) -> torch.Tensor:
        inputs = [s for s in node.inputs if s.kind >= Kind.ACTIVATION] or list(node.inputs)
        source = max(inputs[:2], key=lambda s: len(s.shape)) if len(inputs) > 1 else inputs[0]
        out = self.value(source, depth + 1)
        return out.expand(node.shape) if tuple(out.shape) != node.shape else out

    def _written(self, node: Node, window: Window, depth: int) -> torch.Tensor:
        """The old entries with a part of them written over."""
        old, new = (self.value(source, depth + 1) for source in node.inputs)
        if window.offset < 0:
            raise _LostError("the write begins before the tensor")
        strides = window.whole_stride
        reach = sum((n - 1) * s for n, s in zip(node.shape, strides, strict=True)) + 1
        part = sum((n - 1) * s for n, s in zip(window.size, window.stride, strict=True)) + 1
        flat = new.new_zeros(max(reach, window.offset + part))
        whole = flat.as_strided(node.shape, strides)
        whole.copy_(old)
        flat.as_strided(window.size, window.stride, window.offset).copy_(new.expand(window.size))
        return whole

    @staticmethod
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

    def _given(self, values: Any, depth: int, func: Any) -> list[Any]:
        out = [self._one(value, depth) for value in values]
        if func._schema.is_mutable and out and isinstance(out[0], torch.Tensor):
            out[0] = out[0].clone()
        return out

    def _given_map(self, values: dict[str, Any], depth: int, func: Any) -> dict[str, Any]:
        return {key: self._one(value, depth) for key, value in values.items()}

    def _one(self, value: Any, depth: int) -> Any:
        if isinstance(value, Node):
            return self.value(value, depth + 1)
        if type(value) in {list, tuple}:
            return type(value)(self._one(item, depth) for item in value)
        return value


class Holder(Protocol):
    """Who holds the values of nodes."""

    retainer: Retainer
    values: TensorValues


def require_operand(
    operand: Node, observed: torch.Tensor, trail: Trail, holder: Holder, scope: tuple[int, ...]
) -> None:
    """Raise ``UnresolvedError`` unless the operand is what its trail claims.

    It must be its terminals' values, moved, times the claimed factors, within the dtype's bound.
    """
    result = check_operand(operand, observed, trail, holder.retainer, holder.values, scope)
    if result is None:
        raise UnresolvedError(
            "the way from the projection to the query-key product could not be run again"
        )
    if not result.within:
        raise UnresolvedError(
            "an operand of the query-key product differs from its projection times the factors "
            f"found by {result.difference:.3g} (the dtype allows {result.bound:.3g})"
        )


def check_operand(
    operand: Node,
    observed: torch.Tensor,
    trail: Trail,
    retainer: Retainer,
    values: TensorValues,
    scope: tuple[int, ...],
) -> Mismatch | None:
    """Whether the operand is its terminals' values, moved, times the claimed factors.

    None where the path cannot be run again; the caller then says so.
    """
    replay = _Replay(trail, retainer, values, scope)
    try:
        base = replay.value(operand)
    except (_LostError, RuntimeError, TypeError, NotImplementedError):
        return None
    factor = 1.0
    for step in () if trail.affine else trail.factors:
        if step.node.index in trail.skipped and step.value is not None:
            factor *= step.value
    if base.shape != observed.shape:
        base = base.reshape(observed.shape) if base.numel() == observed.numel() else base
    if base.shape != observed.shape:
        return Mismatch(0, float("inf"), 0.0)
    gap = (base.double() * factor - observed.double()).abs()
    finite = torch.isfinite(observed) & torch.isfinite(base)
    gap = torch.where(finite, gap, torch.zeros_like(gap))
    sizes = torch.where(finite, observed.abs().double(), torch.zeros_like(gap))
    size = max(float(sizes.max()), 1e-300) if observed.numel() else 1.0
    bound = 16.0 * max(eps_of(observed.dtype), eps_of(base.dtype)) * size
    worst = float(gap.max()) if gap.numel() else 0.0
    return Mismatch(observed.shape[0] if observed.dim() else 1, worst, bound)
