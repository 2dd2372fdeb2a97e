"""Scores that several products, or parts of one, were put together of.

Local and global keys that are concatenated, and chunks that are written into a buffer, give a
softmax over entries of several products. The walk back from there has as many ends as there are
products. Every way must carry the same factor, or no one number is the scale of the softmax.
Which entry came from where is not decided here: see ``rootdk.frontends._sites.entries``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rootdk.frontends._graph.guards import guarded
from rootdk.frontends._graph.node import LAYOUT, Kind, Node
from rootdk.frontends._graph.product import Product, factors_inside, find_product
from rootdk.frontends._graph.trail import (
    FactorStep,
    NotAttentionError,
    UnresolvedError,
    Values,
)

__all__ = ["Joined", "Piece", "carriers", "factor_at", "is_join", "joined_at"]

_Ways = dict[int, tuple[FactorStep, ...]]
# Parts of one tensor that differ by less carry the same factor.
_SAME = 1e-5
_FILLS = frozenset({"masked_fill", "where"})


@dataclass(frozen=True)
class Piece:
    """One query-key product, and the factors on its way to where the scores are one tensor."""

    product: Product
    factors: tuple[FactorStep, ...] = ()

    @property
    def constant(self) -> float:
        """The product of the factors, all of which are constants."""
        return _constant(self.factors)


@dataclass(frozen=True)
class Joined:
    """Where the scores become one tensor, and the products that they come from.

    ``filled``: entries may stand among them that are no product, or had something added.
    """

    node: Node
    pieces: tuple[Piece, ...]
    filled: bool = False


def is_join(node: Node) -> bool:
    """Whether entries of several products, or of one in another order, come together here."""
    if not node.on_scores:
        return False
    if node.op in {"cat", "where"}:
        return len(carriers(node)) > 1
    return node.op in {"assemble", "stack", "rearrange", "gather"} and not node.attrs.get(
        "keeps_order"
    )


def carriers(node: Node) -> list[int]:
    """Which inputs hold scores."""
    return [i for i, source in enumerate(node.inputs) if source.on_scores]


def joined_at(node: Node, values: Values) -> Joined:
    """The products behind ``node``, each with its factors.

    Raises
    ------
    UnresolvedError
        If a way from a product is not understood, or two ways carry different factors.
    NotAttentionError
        If what is put together are sums or maxima of scores.
    """
    ways: dict[int, _Ways] = {}
    products: dict[int, Product] = {}
    between = _between(node)
    for at in between:
        product = find_product(at)
        if product is not None:
            if 2 in carriers(at):
                raise UnresolvedError("a product is added to scores before they are put together")
            products[at.index] = product
            ways[at.index] = {at.index: factors_inside(product)}
        else:
            ways[at.index] = _ways(at, ways, values)
    pieces = tuple(Piece(products[i], factors) for i, factors in ways[node.index].items())
    return Joined(node, pieces, filled=any(_may_fill(at) for at in between))


def _may_fill(node: Node) -> bool:
    """Whether an operation may put something else than products among the scores."""
    if node.op in {"view", "permute", "unsqueeze", "squeeze", "expand", "slice", "select"}:
        return False
    if node.op in {"mul", "div", "neg", "identity", "sum", "mean", "matmul"}:
        # A product may have an addend.
        return len(node.inputs) > 2
    return node.op != "cat" or len(carriers(node)) < len(node.inputs)


def _between(node: Node) -> list[Node]:
    """The nodes from the products to ``node`` that hold scores, in the order they were made."""
    found: dict[int, Node] = {}
    todo = [node]
    while todo:
        current = todo.pop()
        if current.index in found:
            continue
        found[current.index] = current
        if find_product(current) is None:
            todo.extend(source for source in current.inputs if source.on_scores)
    return [found[index] for index in sorted(found)]


def _ways(node: Node, ways: dict[int, _Ways], values: Values) -> _Ways:
    """Which products entries of ``node`` may come from, and the factors on the way."""
    over = carriers(node)
    if node.op in LAYOUT | _FILLS and over:
        return _merged([ways[node.inputs[i].index] for i in over])
    if node.op in {"mul", "div", "add", "sub", "neg"} and len(over) == 1:
        step = factor_at(node, over[0], values)
        before = ways[node.inputs[over[0]].index]
        return before if step is None else {i: (*steps, step) for i, steps in before.items()}
    if node.op in {"logsumexp", "amax", "sum", "mean"} or not over:
        raise NotAttentionError(node.op)
    name = node.attrs.get("name", node.op)
    if node.op in {"matmul", "linear", "conv"}:
        raise UnresolvedError("the scores pass through a learned map (talking heads)")
    if len(over) > 1:
        raise UnresolvedError(
            f"scores of several products go through {name} before they are put together"
        )
    raise UnresolvedError(
        f"scores pass through {name} before they are put together, which is not followed"
    )


def factor_at(node: Node, position: int, values: Values) -> FactorStep | None:
    """The constant that a step multiplies scores by; None where it adds or hides something."""
    if node.op == "neg" or (node.op == "sub" and (node.attrs.get("reverse") or position == 1)):
        return FactorStep(node, -1.0, origin="negated")
    if node.op not in {"mul", "div"}:
        return None
    value = node.attrs.get("scalar")
    if value is None:
        other = node.inputs[1 - position]
        value = other.value if other.value is not None else values.uniform(other)
        if value is None or other.kind > Kind.INDEX or (node.op == "div" and position == 1):
            raise UnresolvedError(
                "scores are multiplied by a tensor before they are put together of pieces"
            )
    number = float(value)
    if node.op == "div":
        number = 1.0 / number if number else math.inf
    words = "divided by a constant" if node.op == "div" else "multiplied by a constant"
    return FactorStep(node, number, origin=words)


def _merged(parts: list[_Ways]) -> _Ways:
    """The ways of several parts; two from one product must carry the same factor."""
    merged: _Ways = {}
    for part in parts:
        for index, steps in part.items():
            held = merged.get(index)
            if held is None:
                merged[index] = steps
                continue
            one, two = _constant(held), _constant(steps)
            if abs(one - two) > _SAME * abs(one) and guarded("partial-write"):
                raise UnresolvedError(
                    f"parts of the scores carry different factors ({one:.6g} and {two:.6g})"
                )
            if len(steps) > len(held) and guarded("partial-write"):
                merged[index] = steps
    return merged


def _constant(steps: tuple[FactorStep, ...]) -> float:
    return math.prod(step.value for step in steps if step.value is not None)
