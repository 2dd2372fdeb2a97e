"""One step of the walk over an operand: the trail before it, and the trail after it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rootdk.frontends._graph.guards import guarded
from rootdk.frontends._graph.node import Node
from rootdk.frontends._graph.trail import FactorStep, Trail, UnresolvedError

__all__ = ["doubled", "ignored", "merged", "passed", "scaled", "terminal", "turned"]


def passed(trail: Trail, node: Node) -> Trail:
    return replace(trail, steps=(*trail.steps, node.attrs.get("name", node.op)))


def terminal(node: Node, kind: str, **flags: Any) -> Trail:
    return Trail(terminals=frozenset({node}), kind=kind, **flags)


def scaled(trail: Trail, step: FactorStep) -> Trail:
    claim = (step.node.index, 1.0 if step.value is None else step.value)
    return replace(trail, factors=(*trail.factors, step), claims=trail.claims | {claim})


def ignored(trail: Trail, node: Node) -> Trail:
    """What a walk without one of its guards believes: that the node did nothing."""
    return replace(trail, claims=trail.claims | {(node.index, 1.0)})


def turned(trail: Trail, node: Node, gain: float, origin: str) -> Trail:
    """A rotation passed through; one that is not of size 1 is a factor as well."""
    trail = replace(trail, rotary=True)
    if abs(gain - 1.0) <= 1e-4:
        return trail
    return replace(trail, factors=(*trail.factors, FactorStep(node, gain, origin=origin)))


def doubled(trail: Trail, node: Node, times: float) -> Trail:
    if not guarded("sum-of-same"):
        return ignored(trail, node)
    return scaled(trail, FactorStep(node, times, origin="a tensor added to itself"))


def merged(node: Node, trails: list[Trail], what: str) -> Trail:
    """Parts of one tensor must carry one factor."""
    first = max(trails, key=lambda t: len(t.factors))
    for other in trails:
        if abs(other.constant - first.constant) > 1e-5 * abs(first.constant):
            raise UnresolvedError(
                f"{what} with different factors ({other.constant:.6g} and {first.constant:.6g})"
            )
        if len(other.vectors) != len(first.vectors):
            raise UnresolvedError(f"{what}, one of them with a factor per entry")
    terminals = frozenset().union(*(t.terminals for t in trails))
    claims = frozenset().union(*(t.claims for t in trails))
    return replace(
        first,
        terminals=terminals,
        claims=claims,
        affine=any(t.affine for t in trails),
        signs=frozenset().union(*(t.signs for t in trails)),
        normalised=all(t.normalised for t in trails),
        learned_gain=any(t.learned_gain for t in trails),
        rotary=any(t.rotary for t in trails),
        steps=(*first.steps, node.attrs.get("name", node.op)),
    )
