"""Run the recorded way from the projections again, without the factors that were claimed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

from rootdk._lib.arrays import Array, namespace, quiet
from rootdk.frontends._graph.node import Kind, Node
from rootdk.frontends._graph.trail import Trail, UnresolvedError
from rootdk.frontends._sites.numbers import (
    Floats,
    count,
    eps_of,
    expanded,
    identical,
    span,
    times,
    wide,
)
from rootdk.frontends._sites.recompute import Mismatch
from rootdk.frontends._sites.values import ArrayValues

__all__ = ["Holder", "LostError", "Retainer", "ValueOf", "check_operand", "require_operand"]

_LONGEST = 200

ValueOf = Callable[[Node], Array]
"""The value of a node in the replay."""


class LostError(Exception):
    """A value on the way is no longer held, or an operation cannot be run again."""


class Retainer(Protocol):
    """Keeps values alive for the verification."""

    def value(self, node: Node) -> Array | None:
        """The value of ``node`` when it was made; None when no longer held."""
        ...

    def was_changed(self, node: Node) -> bool:
        """Whether a held value was changed where nothing could be recorded."""
        ...


class Holder(Protocol):
    """Who holds the values of nodes, and can run one operation again."""

    @property
    def retainer(self) -> Retainer:
        """What is kept of values."""
        ...

    @property
    def values(self) -> ArrayValues:
        """The side operands."""
        ...

    def again(self, node: Node, value_of: ValueOf) -> Array:
        """Run the operation of ``node`` again on ``value_of`` its inputs.

        Raises
        ------
        LostError
            If it was not recorded, or a value that it needs is no longer held.
        """
        ...

    def moved(self, node: Node, inputs: Sequence[Floats]) -> Floats:
        """Run an operation that only moves entries on other entries, in float64.

        ``inputs`` are for the floating inputs of ``node``, in order; what chooses places (indices,
        masks) is as it was recorded.

        Raises
        ------
        LostError
            If it was not recorded, or a value that it needs is no longer held.
        """
        ...


class _Replay:
    """Run the recorded operations again from the terminals, without the claimed factors."""

    def __init__(self, trail: Trail, holder: Holder, scope: tuple[int, ...]) -> None:
        self.trail, self.holder, self.scope = trail, holder, scope
        # Where offsets are added, factors are applied where they stand, at their claimed value.
        self.claims = dict(trail.claims) if trail.affine else dict.fromkeys(trail.skipped, 1.0)
        self._memo: dict[int, Array] = {}
        self._depth = 0

    def value(self, node: Node) -> Array:
        if node.index not in self._memo:
            if self._depth > _LONGEST:
                raise LostError("too long")
            self._depth += 1
            self._memo[node.index] = self._value(node)
            self._depth -= 1
        return self._memo[node.index]

    def _value(self, node: Node) -> Array:
        call = node.attrs.get("exit_of")
        leaves_module = call is not None and call not in self.scope
        if node in self.trail.terminals or leaves_module:
            return self._terminal(node)
        if node.index in self.claims:
            value = self._skipped(node)
            claim = self.claims[node.index]
            return value if claim == 1.0 else times(value, claim)
        if node.op == "view" and not node.attrs.get("dtype") and "call" in node.attrs:
            # A skipped factor may have been what made the entries contiguous.
            return self.value(node.inputs[0]).reshape(node.shape)
        return self.holder.again(node, self.value)

    def _terminal(self, node: Node) -> Array:
        if node.op == "unknown":
            raise UnresolvedError("the path ends at a tensor that nothing recorded has made")
        retainer = self.holder.retainer
        held = retainer.value(node)
        if retainer.was_changed(node):
            raise UnresolvedError("a tensor on the path was changed outside the traced operations")
        held = held if held is not None else self.holder.values.tensor(node)
        if held is None:
            raise LostError(f"the value of {node.op} is no longer held")
        return held

    def _skipped(self, node: Node) -> Array:
        inputs = [s for s in node.inputs if s.kind >= Kind.ACTIVATION] or list(node.inputs)
        source = max(inputs[:2], key=lambda s: len(s.shape)) if len(inputs) > 1 else inputs[0]
        out = self.value(source)
        return expanded(out, node.shape) if tuple(out.shape) != node.shape else out


def require_operand(
    operand: Node, observed: Array, trail: Trail, holder: Holder, scope: tuple[int, ...]
) -> None:
    """Raise ``UnresolvedError`` unless the operand is what its trail claims.

    It must be its terminals' values, moved, times the claimed factors, within the dtype's bound.
    """
    result = check_operand(operand, observed, trail, holder, scope)
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
    operand: Node, observed: Array, trail: Trail, holder: Holder, scope: tuple[int, ...]
) -> Mismatch | None:
    """Whether the operand is its terminals' values, moved, times the claimed factors.

    None where the path cannot be run again; the caller then says so.
    """
    try:
        base = _Replay(trail, holder, scope).value(operand)
    except (LostError, RuntimeError, TypeError, NotImplementedError):
        return None
    factor = 1.0
    for step in () if trail.affine else trail.factors:
        if step.node.index in trail.skipped and step.value is not None:
            factor *= step.value
    if base.shape != observed.shape and count(base) == count(observed):
        base = base.reshape(tuple(observed.shape))
    if base.shape != observed.shape:
        return Mismatch(0, float("inf"), 0.0)
    return _gap(base, factor, observed)


def _gap(base: Array, factor: float, observed: Array) -> Mismatch:
    rows = observed.shape[0] if observed.shape else 1
    if not count(observed):
        return Mismatch(rows, 0.0, 0.0)
    slack = 16.0 * max(eps_of(observed), eps_of(base))
    with quiet():
        if factor == 1.0 and base.dtype == observed.dtype:
            if identical(base, observed):
                return Mismatch(rows, 0.0, 0.0)
            # Nothing is rounded but the difference, so it needs no wider type.
            low, high = span(base - observed)
            if math.isfinite(low) and math.isfinite(high):
                size = max(*(abs(end) for end in span(observed)), 1e-300)
                return Mismatch(rows, max(high, -low), slack * size)
        found, seen = wide(base), wide(observed)
        xp = namespace(found)
        gap = xp.abs(found * factor - seen)
        finite = xp.isfinite(seen) & xp.isfinite(found)
        worst = float(xp.max(xp.where(finite, gap, 0.0)))
        size = max(float(xp.max(xp.where(finite, xp.abs(seen), 0.0))), 1e-300)
    return Mismatch(rows, worst, slack * size)
