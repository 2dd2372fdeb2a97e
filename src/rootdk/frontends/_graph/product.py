"""The query-key product: which matrix product or reduction it is."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

from rootdk.frontends._graph.axes import Axes, product_axes
from rootdk.frontends._graph.factors import multiplier
from rootdk.frontends._graph.node import LAYOUT, SCORES, Kind, Node
from rootdk.frontends._graph.trail import FactorStep

__all__ = [
    "Product",
    "Regroup",
    "descends_from",
    "factors_inside",
    "find_product",
    "is_floor",
    "is_shift",
    "term_widths",
]


@dataclass(frozen=True)
class Regroup:
    """How the merged axis of one operand falls apart: sizes, outermost first, and what each is.

    ``label`` is that of the merged axis; ``queries`` are the positions of the parts that number
    the queries, all others are heads.
    """

    label: str
    sizes: tuple[int, ...]
    queries: tuple[int, ...]

    @property
    def groups(self) -> tuple[int, ...]:
        """The positions of the parts that number heads."""
        return tuple(i for i in range(len(self.sizes)) if i not in self.queries)

    @property
    def count(self) -> int:
        """How many heads were merged with the queries."""
        return prod(self.sizes[i] for i in self.groups)


@dataclass(frozen=True)
class Product:
    """The query-key product: ``rows`` and ``columns`` are the operands of its last two axes.

    ``form`` is ``matmul`` (columns hold head_dim on their last axis but one) or ``reduce``
    (an elementwise product summed over the last axis; both broadcast). ``regroup`` says how
    heads that were merged with the queries come apart.
    """

    node: Node
    rows: Node
    columns: Node
    form: Literal["matmul", "reduce"]
    axes: Axes
    regroup: Regroup | None = None


def find_product(node: Node) -> Product | None:
    """The query-key product that ``node`` is, or None."""
    if node.op == "matmul" and len(node.inputs) >= 2:
        rows, columns = node.inputs[0], node.inputs[1]
        if rows.on_scores == SCORES or columns.on_scores == SCORES:
            return None
        kinds = {rows.kind, columns.kind}
        if not kinds <= {Kind.PARAMETER, Kind.ACTIVATION, Kind.UNKNOWN}:
            return None
        if kinds == {Kind.PARAMETER} and node.on_scores != SCORES:
            return None
        if Kind.PARAMETER in kinds and (rows.on_scores or columns.on_scores):
            # A learned map over the scores of a learned query (talking heads).
            return None
        axes = product_axes(node.shape[:-2], node.shape[-2], node.shape[-1])
        return Product(node, rows, columns, "matmul", axes)
    if node.op in {"sum", "mean"} and node.inputs:
        return _reduction(node)
    return None


def _behind_scalars(node: Node) -> tuple[Node, list[Node]]:
    """The products of entries behind plain numbers that they were multiplied or divided by."""
    scalars = []
    while node.op in {"mul", "div"} and "scalar" in node.attrs and node.inputs:
        scalars.append(node)
        node = node.inputs[0]
    return node, scalars


def _reduction(node: Node) -> Product | None:
    """(q · k).sum(-1): the query varies where the key is broadcast, and the other way round."""
    times, _ = _behind_scalars(node.inputs[0])
    rank = len(times.shape)
    if (
        times.op != "mul"
        or len(times.inputs) != 2
        or node.attrs.get("dims") != (rank - 1,)
        or node.attrs.get("keep")
    ):
        return None
    one, two = times.inputs
    if Kind.ACTIVATION not in {one.kind, two.kind} or min(one.kind, two.kind) < Kind.PARAMETER:
        return None
    shapes = [(1,) * (rank - len(n.shape)) + n.shape for n in (one, two)]
    whole = times.shape
    one_only = [i for i in range(rank - 1) if shapes[1][i] == 1 != whole[i]]
    two_only = [i for i in range(rank - 1) if shapes[0][i] == 1 != whole[i]]
    if len(one_only) > 1 or len(two_only) != 1:
        return None
    labels = [f"L{i}" for i in range(rank - 1)]
    for i in one_only:
        labels[i] = "Q"
    labels[two_only[0]] = "K"
    dims = product_axes(whole[: rank - 1], 1, 1).dims[: rank - 1]
    renamed = []
    for dim, label in zip(dims, labels, strict=True):
        atoms = tuple(type(a)(label, a.size, a.stride) for a in dim.atoms)
        renamed.append(type(dim)(atoms, dim.size))
    return Product(node, one, two, "reduce", Axes(tuple(renamed)))


def factors_inside(product: Product) -> tuple[FactorStep, ...]:
    """What the operation of the product itself multiplies: a mean's share, alpha of baddbmm."""
    node, found = product.node, []
    if node.op == "mean":
        share = 1.0 / node.inputs[0].shape[-1]
        found.append(FactorStep(node, share, origin="a mean where a sum is usual"))
    if product.form == "reduce":
        for scaled in _behind_scalars(node.inputs[0])[1]:
            value = multiplier(scaled, scaled.attrs["scalar"])
            found.append(FactorStep(scaled, value, origin="a factor inside the sum"))
    alpha = node.attrs.get("alpha", 1.0)
    if alpha != 1.0:
        found.append(FactorStep(node, float(alpha), origin="alpha of the product"))
    return tuple(found)


def is_shift(other: Node) -> bool:
    """Whether ``other`` is a maximum, mean or logsumexp over a whole axis of scores.

    One that is kept from falling below a number (0, for a key of that score) is as well.
    """
    while other.inputs and (other.op in LAYOUT or is_floor(other)):
        other = other.inputs[0]
    return other.op in {"amax", "mean", "logsumexp"} and bool(other.inputs and other.on_scores)


def is_floor(node: Node) -> bool:
    """Whether a node is its first input, or one constant number where that is less."""
    if node.op == "clamp":
        return len(node.inputs) == 1 and set(node.attrs) & {"low", "high"} == {"low"}
    if node.op != "maximum" or not node.attrs.get("largest", True):
        return False
    return len(node.inputs) == 1 or node.inputs[1].value is not None


def descends_from(node: Node, product: Node) -> bool:
    """Whether ``node`` was made of the same product (talking heads with a residual)."""
    todo, seen = [node], set[int]()
    while todo:
        current = todo.pop()
        if current is product:
            return True
        if current.index in seen or current.index < product.index:
            continue
        seen.add(current.index)
        todo.extend(source for source in current.inputs if source.on_scores)
    return False


def term_widths(node: Node) -> tuple[int, ...]:
    """How many channels each product summed over that is added up in ``node``; () if none was."""
    if not node.on_scores:
        return ()
    if node.op in {"add", "sub"}:
        return tuple(width for source in node.inputs for width in term_widths(source))
    if node.op in LAYOUT | {"mul", "div", "neg", "masked_fill"} and node.inputs:
        return max((term_widths(source) for source in node.inputs), key=len)
    if node.op in {"matmul", "sum", "mean"} and node.inputs and node.inputs[0].shape:
        return (node.inputs[0].shape[-1],)
    return (0,)
