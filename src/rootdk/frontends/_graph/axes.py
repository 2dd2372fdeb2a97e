"""Follow the axes of a score tensor through reshapes and permutations, without its values.

Each dimension of a tensor is a product of *atoms*. An atom is a run of one labelled axis of the
query-key product: ``(label, size, stride)`` stands for the digit ``(index // stride) % size`` of
that axis. Splitting ``batch·heads`` into ``batch`` and ``heads`` gives two atoms of one label.
So for a given entry of the product its place in any later tensor can be computed, and back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from rootdk.frontends._graph.node import Node

__all__ = ["Atom", "Axes", "AxesLostError", "Dim", "advance", "plain_axes", "product_axes"]


class AxesLostError(Exception):
    """The axes of the scores could not be followed; the message says through what."""


@dataclass(frozen=True)
class Atom:
    """A digit of a labelled axis."""

    label: str
    size: int
    stride: int = 1


@dataclass(frozen=True)
class Dim:
    """One dimension: its atoms, outermost first, its size, and where atom index 0 lies in it."""

    atoms: tuple[Atom, ...]
    size: int
    start: int = 0

    @property
    def labels(self) -> frozenset[str]:
        return frozenset(a.label for a in self.atoms)


@dataclass(frozen=True)
class Axes:
    """The dimensions of one tensor."""

    dims: tuple[Dim, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(d.size for d in self.dims)

    def labels_of(self, dim: int) -> frozenset[str]:
        """The labels that vary along a dimension."""
        return self.dims[dim].labels

    def dims_with(self, label: str) -> tuple[int, ...]:
        """The dimensions along which a label varies."""
        return tuple(i for i, d in enumerate(self.dims) if label in d.labels)

    def place(self, index: Mapping[str, int]) -> tuple[int, ...]:
        """Where the entry with these label values lies in this tensor."""
        out = []
        for dim in self.dims:
            position = 0
            for atom in dim.atoms:
                position = position * atom.size + (index[atom.label] // atom.stride) % atom.size
            out.append(position + dim.start)
        return tuple(out)

    def values(self, dim: int, position: int) -> dict[tuple[str, int], int]:
        """The digits (label, stride) that a position along a dimension fixes."""
        position -= self.dims[dim].start
        digits: dict[tuple[str, int], int] = {}
        for atom in reversed(self.dims[dim].atoms):
            digits[atom.label, atom.stride] = position % atom.size
            position //= atom.size
        return digits


def product_axes(leading: Sequence[int], queries: int, keys: int) -> Axes:
    """The axes of a query-key product: ``L0``, ``L1`` … for the leading ones, then Q and K."""
    dims = [_dim(f"L{i}", n) for i, n in enumerate(leading)]
    return Axes((*dims, _dim("Q", queries), _dim("K", keys)))


def plain_axes(shape: Sequence[int]) -> Axes:
    """The axes of a tensor that is no one product: ``J0``, ``J1`` …, for its dimensions."""
    return Axes(tuple(_dim(f"J{i}", n) for i, n in enumerate(shape)))


def _dim(label: str, size: int) -> Dim:
    return Dim((Atom(label, size),) if size != 1 else (), size)


def advance(node: Node, axes: Axes, position: int = 0) -> Axes:
    """Return the axes of ``node`` given those of its input number ``position``."""
    op, dims = node.op, axes.dims
    if op == "view":
        return _reshape(axes, node.shape)
    if op == "permute":
        return Axes(tuple(dims[i] for i in node.attrs["dims"]))
    if op == "unsqueeze":
        at = node.attrs["dim"] % (len(dims) + 1)
        return Axes((*dims[:at], Dim((), 1), *dims[at:]))
    if op == "squeeze":
        return Axes(tuple(d for i, d in enumerate(dims) if i not in node.attrs["dims"]))
    if op == "select":
        at = node.attrs["dim"]
        if dims[at].atoms:
            raise AxesLostError("one position of the scores is selected")
        return Axes((*dims[:at], *dims[at + 1 :]))
    if op == "slice":
        return _slice(node, axes)
    if op == "cat":
        return _cat(node, axes, position)
    if op in {"rearrange", "gather", "stack", "assemble"}:
        if node.shape == axes.shape and node.attrs.get("keeps_order"):
            return axes
        raise AxesLostError(f"entries of the scores are rearranged ({node.attrs.get('name', op)})")
    return _broadcast(node, axes)


def _broadcast(node: Node, axes: Axes) -> Axes:
    """Elementwise operations and expand: sizes of 1 may grow, dimensions may come in front.

    What grows is an axis of its own, which no product has: ``new`` and where it came to be.
    """
    shape = node.shape
    missing = len(shape) - len(axes.dims)
    if missing < 0:
        raise AxesLostError(f"a tensor of shape {axes.shape} became {shape}")
    dims = (Dim((), 1),) * missing + axes.dims
    out = []
    for dim, size in zip(dims, shape, strict=True):
        if dim.size == size:
            out.append(dim)
        elif dim.size == 1:
            out.append(Dim((Atom(f"new{node.index}.{len(out)}", size),), size))
        else:
            raise AxesLostError(f"a tensor of shape {axes.shape} became {shape}")
    return Axes(tuple(out))


def _slice(node: Node, axes: Axes) -> Axes:
    at, start, size = node.attrs["dim"], node.attrs["start"], node.shape[node.attrs["dim"]]
    dim = axes.dims[at]
    if node.attrs.get("step", 1) != 1:
        raise AxesLostError("scores are sliced with a step")
    if size == dim.size:
        return axes
    changed = Dim(dim.atoms, size, dim.start - start)
    return Axes((*axes.dims[:at], changed, *axes.dims[at + 1 :]))


def _cat(node: Node, axes: Axes, position: int) -> Axes:
    at = node.attrs["dim"]
    before = sum(n.shape[at] for n in node.inputs[:position])
    dim = axes.dims[at]
    changed = Dim(dim.atoms, node.shape[at], dim.start + before)
    return Axes((*axes.dims[:at], changed, *axes.dims[at + 1 :]))


def _reshape(axes: Axes, shape: tuple[int, ...]) -> Axes:
    """Regroup the atoms, splitting one where a new dimension ends inside it."""
    if axes.shape == shape:
        return axes
    pending: list[Atom] = []
    for dim in axes.dims:
        if dim.start or prod(a.size for a in dim.atoms) != dim.size:
            raise AxesLostError("a slice of the scores is reshaped")
        pending.extend(dim.atoms)
    if prod(shape) != prod(axes.shape):
        raise AxesLostError(f"a tensor of shape {axes.shape} became {shape}")
    out: list[Dim] = []
    for size in shape:
        atoms: list[Atom] = []
        need = size
        while need > 1:
            atom = pending.pop(0)
            if need % atom.size == 0:
                atoms.append(atom)
                need //= atom.size
            elif atom.size % need == 0:
                rest = atom.size // need
                atoms.append(Atom(atom.label, need, atom.stride * rest))
                pending.insert(0, Atom(atom.label, rest, atom.stride))
                need = 1
            else:
                raise AxesLostError(f"a tensor of shape {axes.shape} was reshaped to {shape}")
        out.append(Dim(tuple(atoms), size))
    return Axes(tuple(out))
