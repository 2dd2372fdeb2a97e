"""A softmax over more than the keys of one query: other queries, heads or samples beside them."""

from __future__ import annotations

from rootdk._lib.arrays import Array, namespace
from rootdk.frontends._graph.axes import Atom, Axes
from rootdk.frontends._graph.product import Product
from rootdk.frontends._sites.arrange import Arrangement, label_order
from rootdk.records.site import Axis

__all__ = ["spanned"]


def spanned(
    product: Product, axes: Axes, dim: int, arrangement: Arrangement, query: Array
) -> Axis | None:
    """What a softmax over ``dim`` takes together with the keys; None where the keys are all.

    Keys may be in several pieces, numbered by leading axes of the product: then the query is the
    same for all of them, and only then. ``query`` is (leading…, positions, head_dim).
    """
    atoms = axes.dims[dim].atoms
    if arrangement.query_label in {atom.label for atom in atoms}:
        return "queries-and-keys"
    names = [name for name in label_order(product) if name not in {"Q", "K"}]
    missing = len(names) - (len(query.shape) - 2)
    heads = [arrangement.leading[i] for i in arrangement.heads]
    for atom in atoms:
        at = names.index(atom.label) - missing if atom.label in names else -1
        if at >= 0 and _varies(query, at, atom):
            return "heads-and-keys" if any(_within(h, atom) for h in heads) else "batch-and-keys"
    return None


def _varies(query: Array, dim: int, atom: Atom) -> bool:
    """Whether a query differs along the digit of one of its axes."""
    before, size, after = query.shape[:dim], query.shape[dim], query.shape[dim + 1 :]
    if size % (atom.size * atom.stride):
        return False
    apart = query.reshape((*before, -1, atom.size, atom.stride, *after))
    first = (slice(None),) * (dim + 1) + (slice(0, 1),)
    return bool(namespace(query).any(apart != apart[first]))


def _within(part: Atom, whole: Atom) -> bool:
    """Whether one run of digits of an axis is inside another."""
    ends = part.stride * part.size <= whole.stride * whole.size
    return part.label == whole.label and part.stride >= whole.stride and ends
