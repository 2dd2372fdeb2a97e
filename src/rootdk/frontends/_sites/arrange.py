"""Bring operands, masks and biases into (batch, heads, queries, keys | head_dim)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from rootdk._lib.arrays import Array
from rootdk.frontends._graph.axes import Atom, Axes, Dim
from rootdk.frontends._graph.node import LAYOUT, Node
from rootdk.frontends._graph.product import Product
from rootdk.frontends._graph.trail import UnresolvedError
from rootdk.frontends._sites.numbers import expanded, lifted, permuted, turned

__all__ = ["Arrangement", "arrange", "beside_groups", "operand_tensors"]


@dataclass(frozen=True)
class Arrangement:
    """How the leading axes of a product split into batch and heads.

    ``leading`` are the atoms of the leading labels, outermost first; ``heads`` are the positions
    among them that make the head axis. ``query_label`` is the label of the query axis. Axes that
    the scores have only since a larger mask was added to them are among the leading ones.
    """

    leading: tuple[Atom, ...]
    heads: tuple[int, ...]
    query_label: str
    key_label: str

    @property
    def batch(self) -> int:
        return prod(a.size for i, a in enumerate(self.leading) if i not in self.heads)

    @property
    def num_heads(self) -> int:
        return prod(self.leading[i].size for i in self.heads)

    def operand(self, tensor: Array, labels: tuple[str, ...]) -> Array:
        """(batch, heads, positions, head_dim) from (leading…, positions, head_dim)."""
        sizes: list[int] = []
        order: dict[int, int] = {}
        dims = list(tensor.shape[:-2])
        for label, size in zip(labels, dims, strict=True):
            mine = [i for i, atom in enumerate(self.leading) if atom.label == label]
            for position in mine or self._grown(size, order):
                order[position] = len(sizes)
                sizes.append(self.leading[position].size if size != 1 else 1)
        return self._ordered(tensor, sizes, order)

    def along(self, tensor: Array, dims: Sequence[Dim]) -> Array:
        """As ``operand``, where the leading axes of the tensor are ``dims`` of the weights."""
        sizes: list[int] = []
        order: dict[int, int] = {}
        for dim, have in zip(dims, tensor.shape[:-2], strict=True):
            for atom in (part for whole in dim.atoms for part in self._refined(whole)):
                order[self.leading.index(atom)] = len(sizes)
                sizes.append(atom.size if have != 1 else 1)
        return self._ordered(tensor, sizes, order)

    def _ordered(self, tensor: Array, sizes: list[int], order: dict[int, int]) -> Array:
        """Batch and heads in front, from axes of these sizes; what is missing is repeated."""
        for position in range(len(self.leading)):
            if position not in order:
                order[position] = len(sizes)
                sizes = [*sizes, 1]
        spread = tensor.reshape((*sizes, *tensor.shape[-2:]))
        batch = [order[i] for i in range(len(self.leading)) if i not in self.heads]
        heads = [order[i] for i in self.heads]
        rank = len(sizes)
        moved = permuted(spread, (*batch, *heads, rank, rank + 1))
        full_batch = [self.leading[i].size for i in range(len(self.leading)) if i not in self.heads]
        full_heads = [self.leading[i].size for i in self.heads]
        moved = expanded(moved, (*full_batch, *full_heads, *moved.shape[-2:]))
        return moved.reshape((self.batch, self.num_heads, *moved.shape[-2:]))

    def _grown(self, size: int, taken: dict[int, int]) -> list[int]:
        """The axis of this size that the product does not have, for values that have it."""
        fitting = [
            i
            for i, atom in enumerate(self.leading)
            if atom.label.startswith("new") and atom.size == size and i not in taken
        ]
        return fitting if size != 1 and len(fitting) == 1 else []

    def beside(self, tensor: Array, axes: Axes) -> Array:
        """A mask or bias on scores with these axes, broadcastable to (b, h, queries, keys)."""
        shape = axes.shape
        tensor = lifted(tensor, len(shape))
        atoms: list[Atom | None] = []
        sizes: list[int] = []
        for dim, have in zip(axes.dims, tensor.shape, strict=True):
            split = [part for atom in dim.atoms for part in self._refined(atom)]
            if prod(a.size for a in split) != dim.size or dim.start:
                raise UnresolvedError("a mask or bias stands on a slice of the scores")
            atoms.extend(split)
            sizes.extend(a.size if have != 1 else 1 for a in split)
            if not split:
                atoms.append(None)
                sizes.append(1)
        spread = tensor.reshape(tuple(sizes))
        groups = (
            [a for i, a in enumerate(self.leading) if i not in self.heads],
            [self.leading[i] for i in self.heads],
            [a for a in atoms if a is not None and a.label == self.query_label],
            [a for a in atoms if a is not None and a.label == self.key_label],
        )
        out: list[list[int]] = []
        for group in groups:
            places = [atoms.index(a) for a in group if a in atoms]
            out.append(places)
        flat = [p for places in out for p in places]
        rest = [i for i in range(len(sizes)) if i not in flat]
        if any(sizes[i] != 1 for i in rest):
            raise UnresolvedError("a mask or bias has an axis that the scores do not have")
        moved = permuted(spread, (*flat, *rest))
        final: list[int] = []
        at = 0
        wanted: list[int] = []
        for places, group in zip(out, groups, strict=True):
            found = [moved.shape[at + i] for i in range(len(places))]
            at += len(places)
            if any(n != 1 for n in found):
                wanted.extend(a.size for a in group if a in atoms)
                final.append(prod(a.size for a in group if a in atoms))
            else:
                wanted.extend(found)
                final.append(1)
        moved = expanded(moved.reshape(tuple(moved.shape[: len(flat)])), wanted)
        return moved.reshape(tuple(final))

    def _refined(self, atom: Atom) -> list[Atom]:
        """The atom in terms of the finer ones that the leading axes were split into."""
        same = [
            a
            for a in self.leading
            if a.label == atom.label
            and a.stride >= atom.stride
            and a.stride * a.size <= atom.stride * atom.size
        ]
        return same if prod(a.size for a in same) == atom.size and same else [atom]


def arrange(
    product: Product, axes: Axes, heads: int | None, key_label: str, dim: int
) -> Arrangement:
    """Split the leading axes, as they are at the softmax over ``dim``, into batch and heads."""
    query_label = "Q" if key_label == "K" else "K"
    present = {a.label for d in product.axes.dims for a in d.atoms}
    leading = tuple(
        atom
        for position, held in enumerate(axes.dims)
        for atom in held.atoms
        if atom.label in present - {"Q", "K"} or (position != dim and atom.label.startswith("new"))
    )
    leading = tuple(sorted(leading, key=lambda a: (a.label, -a.stride)))
    by_rank = _second_of_four(axes, leading)
    if by_rank is not None:
        return Arrangement(leading, by_rank, query_label, key_label)
    if product.regroup is not None and heads is None:
        return Arrangement(leading, _grouped(leading, product), query_label, key_label)
    leading = _split_heads(leading, heads)
    sizes = [a.size for a in leading]
    return Arrangement(leading, _head_positions(sizes, heads), query_label, key_label)


def _grouped(leading: tuple[Atom, ...], product: Product) -> tuple[int, ...]:
    """The heads of a group, and the leading axis right before them: the groups."""
    count = len(product.regroup.groups) if product.regroup is not None else 0
    first = max(len(leading) - count - 1, 0)
    return tuple(range(first, len(leading)))


def _second_of_four(axes: Axes, leading: tuple[Atom, ...]) -> tuple[int, ...] | None:
    """The atoms of the head axis where scores are (batch, heads, queries, keys); else None."""
    before = [d for d in axes.dims if not d.labels & {"Q", "K"}]
    if len(axes.dims) != 4 or len(before) != 2:
        return None
    return tuple(i for i, atom in enumerate(leading) if atom in before[1].atoms)


def _split_heads(leading: tuple[Atom, ...], heads: int | None) -> tuple[Atom, ...]:
    """Split a merged batch·heads axis once the head count is known."""
    if len(leading) != 1 or heads is None or heads < 1:
        return leading
    atom = leading[0]
    if atom.size % heads or atom.size == heads or heads == 1:
        return leading
    outer = Atom(atom.label, atom.size // heads, atom.stride * heads)
    return (outer, Atom(atom.label, heads, atom.stride))


def _head_positions(sizes: list[int], heads: int | None) -> tuple[int, ...]:
    if not sizes:
        return ()
    if heads is not None:
        for first in range(len(sizes) - 1, -1, -1):
            for last in range(len(sizes), first, -1):
                if prod(sizes[first:last]) == heads and (first > 0 or len(sizes) == 1 or heads > 1):
                    return tuple(range(first, last))
        if heads == 1:
            return ()
    return (1,) if len(sizes) > 1 else ()


def heads_from_path(operand: Node, head_dim: int) -> int | None:
    """The number of heads that a reshape on the way from the projection made."""
    node = operand
    for _ in range(64):
        if not node.inputs or node.op not in LAYOUT | {"mul", "div", "add", "norm"}:
            return None
        source = max(node.inputs[:2], key=lambda n: (n.kind, len(n.shape)))
        if node.op == "view" and node.shape and source.shape and node.shape[-1] == head_dim:
            wide, rank = source.shape[-1], len(node.shape)
            if wide > head_dim and wide % head_dim == 0 and rank >= 3:
                count = wide // head_dim
                if node.shape[-2] == count:
                    return count
                if rank == 3 and node.shape[-2] % count == 0:
                    return count
                return node.shape[-2]
        node = source
    return None


def operand_tensors(product: Product) -> tuple[Array, Array]:
    """The operands as (leading…, positions, head_dim), rows first."""
    held = product.node.attrs.get("operands")
    if held is None:
        raise UnresolvedError("the operands of the product were no longer held")
    rows, columns = held
    if product.form == "matmul":
        columns = turned(columns) if len(columns.shape) > 1 else columns[None]
        return _apart(rows, product, "Q"), _apart(columns, product, "K")
    return _without(rows, product, "K"), _without(columns, product, "Q")


def _apart(operand: Array, product: Product, label: str) -> Array:
    """An operand with the heads that were merged with its positions as leading axes."""
    group = product.regroup
    if group is None:
        return operand
    if group.label != label:
        return beside_groups(operand, product)
    lead = tuple(operand.shape[:-2])
    spread = operand.reshape((*lead, *group.sizes, operand.shape[-1]))
    count = len(lead)
    order = [count + i for i in (*group.groups, *group.queries)]
    moved = permuted(spread, (*range(count), *order, len(spread.shape) - 1))
    kept = tuple(group.sizes[i] for i in group.groups)
    return moved.reshape((*lead, *kept, -1, operand.shape[-1]))


def beside_groups(operand: Array, product: Product) -> Array:
    """What all heads of a group share, with an axis of size 1 for each group."""
    new = (1,) * len(product.regroup.groups) if product.regroup is not None else ()
    return operand.reshape((*operand.shape[:-2], *new, *operand.shape[-2:]))


def _without(tensor: Array, product: Product, label: str) -> Array:
    """Drop the axis that an operand of a broadcast product does not have."""
    rank = len(product.axes.dims)
    tensor = lifted(tensor, rank + 1)
    names = label_order(product)
    mine = "Q" if label == "K" else "K"
    order = [i for i, n in enumerate(names) if n not in {"Q", "K"}]
    kept = [i for i, n in enumerate(names) if n == mine]
    gone = [i for i, n in enumerate(names) if n == label]
    moved = permuted(tensor, (*gone, *order, *kept, rank))
    for _ in gone:
        moved = moved[0]
    return moved if kept else moved[..., None, :]


def label_order(product: Product) -> list[str]:
    """The label of each dimension of the product, also of those of size 1."""
    names: list[str] = []
    for position, dim in enumerate(product.axes.dims):
        labels = {a.label for a in dim.atoms}
        if labels:
            names.append(labels.pop())
        elif product.form == "matmul" and position >= len(product.axes.dims) - 2:
            names.append("Q" if position == len(product.axes.dims) - 2 else "K")
        else:
            names.append(f"L{position}")
    return names


def leading_labels(product: Product, rank: int) -> tuple[str, ...]:
    """The labels of the leading dimensions of an operand with ``rank`` dimensions."""
    names = [n for n in label_order(product) if n not in {"Q", "K"}]
    count = rank - 2
    return tuple(names[len(names) - count :]) if count else ()
