"""Constant factors on what the weights meet, and on what comes of it."""

from __future__ import annotations

from rootdk.frontends._graph.factors import multiplier, split_product
from rootdk.frontends._graph.node import LAYOUT, Kind, Node
from rootdk.frontends._graph.trail import FactorStep

__all__ = ["constant_beside", "value_factors"]

_LONGEST = 24


def value_factors(value: Node, scope: tuple[int, ...]) -> tuple[FactorStep, ...]:
    """The plain numbers that multiply the values, from the product back to their projection.

    ``scope`` is where the product was made: what a module of a projection did inside is its own.
    """
    found: list[FactorStep] = []
    node = value
    for _ in range(_LONGEST):
        call = node.attrs.get("exit_of")
        if not node.inputs or (call is not None and call not in scope):
            break
        if node.op in {"mul", "div"}:
            path, number = constant_beside(node)
            if number is None:
                break
            found.append(FactorStep(node, number, origin="a factor on the values"))
            node = path
        elif node.op in LAYOUT and len(node.inputs) == 1:
            node = node.inputs[0]
        else:
            break
    return tuple(found)


def constant_beside(node: Node) -> tuple[Node, float | None]:
    """What a product or quotient multiplies, and by which number; None if it is no constant."""
    path, beside = split_product(node)
    number = node.attrs.get("scalar") if beside is None else beside.value
    if not isinstance(number, int | float) or (beside is not None and beside.kind > Kind.INDEX):
        return path, None
    return path, multiplier(node, number)
