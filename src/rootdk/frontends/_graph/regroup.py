"""Heads that were merged with the queries for the query-key product, apart again.

A product of four axes with three, as einsum and grouped queries have it, is computed as one of
matrices: the queries and the heads that share a key become one axis. Where the softmax sees
them as axes of their own, the product is described as one of more leading axes.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from rootdk.frontends._graph.axes import Atom, Axes, Dim
from rootdk.frontends._graph.line import ScoreLine
from rootdk.frontends._graph.product import Regroup

__all__ = ["regrouped"]


def regrouped(line: ScoreLine, label: str, heads: int | None) -> ScoreLine:
    """The line with the axis beside ``label`` split, if the softmax sees it in parts.

    ``label`` is that of the axis of the softmax. Of the parts, the one that numbers the queries
    is that of another size than ``heads``, or else the one right before the keys.
    """
    axes, product = line.axes, line.product
    merged = "Q" if label == "K" else "K"
    if axes is None or product.form != "matmul" or not axes.dims_with(label):
        return line
    parts = [i for i in axes.dims_with(merged) if axes.dims[i].labels == {merged}]
    if len(parts) < 2 or len(parts) != len(axes.dims_with(merged)):
        return line
    sized = [i for i in parts if axes.dims[i].size == heads]
    others = [i for i in parts if i not in sized]
    position = others[0] if len(sized) == 1 and len(others) == 1 else parts[-1]
    atoms = sorted((a for i in parts for a in axes.dims[i].atoms), key=lambda a: -a.stride)
    mine = axes.dims[position].atoms
    queries = tuple(i for i, atom in enumerate(atoms) if atom in mine)
    group = Regroup(merged, tuple(a.size for a in atoms), queries)
    names = _names(group, atoms, merged, len(product.axes.dims) - 2)
    try:
        steps = [replace(step, axes=_refined(step.axes, merged, names)) for step in line.steps]
        after = _refined(axes, merged, names)
    except LookupError:
        return line
    return replace(
        line,
        product=replace(product, axes=_product_axes(product.axes, group, merged), regroup=group),
        steps=steps,
        axes=after,
    )


def _names(group: Regroup, atoms: list[Atom], merged: str, leading: int) -> dict[Atom, Atom]:
    """What each atom of the merged axis is called from now on."""
    names: dict[Atom, Atom] = {}
    for number, at in enumerate(group.groups):
        names[atoms[at]] = Atom(f"L{leading + number}", group.sizes[at])
    stride = 1
    for at in reversed(group.queries):
        names[atoms[at]] = Atom(merged, group.sizes[at], stride)
        stride *= group.sizes[at]
    return names


def _refined(axes: Axes, merged: str, names: dict[Atom, Atom]) -> Axes:
    """The axes with every atom of the merged one in its new parts."""
    dims = []
    for dim in axes.dims:
        atoms: list[Atom] = []
        for atom in dim.atoms:
            if atom.label != merged:
                atoms.append(atom)
                continue
            inside = [a for a in names if _lies_in(a, atom)]
            if prod(a.size for a in inside) != atom.size:
                raise LookupError(atom)
            atoms.extend(names[a] for a in inside)
        dims.append(Dim(tuple(atoms), dim.size, dim.start))
    return Axes(tuple(dims))


def _lies_in(part: Atom, whole: Atom) -> bool:
    reach = whole.stride * whole.size
    return part.stride >= whole.stride and part.stride * part.size <= reach


def _product_axes(axes: Axes, group: Regroup, merged: str) -> Axes:
    leading = len(axes.dims) - 2
    new = [
        Dim((Atom(f"L{leading + number}", group.sizes[at]),), group.sizes[at])
        for number, at in enumerate(group.groups)
    ]
    count = prod(group.sizes[at] for at in group.queries)
    short = Dim((Atom(merged, count),) if count != 1 else (), count)
    last = [short if merged in d.labels else d for d in axes.dims[leading:]]
    return Axes((*axes.dims[:leading], *new, *last))
