"""The rows that are recomputed of a softmax over scores put together of pieces.

A sample as of any softmax, and where it does not show every piece, a few rows that do.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from rootdk._lib.arrays import Array, quiet
from rootdk.frontends._graph.axes import Axes
from rootdk.frontends._graph.line import ScoreLine
from rootdk.frontends._graph.pieces import Joined, Piece
from rootdk.frontends._graph.trail import UnresolvedError
from rootdk.frontends._sites.entries import Entries, entries_at
from rootdk.frontends._sites.numbers import Floats, norms, picked
from rootdk.frontends._sites.recompute import (
    INVISIBLE,
    NOTHING_SEEN,
    RawScores,
    draw_seeing,
    operand_rows,
    recompute,
)
from rootdk.frontends._sites.replay import Holder
from rootdk.frontends._sites.sampling import Places, Sample, at_rows

__all__ = ["Look", "Softmax", "looks_at", "raw_scores", "vectors_at"]

_Marks = npt.NDArray[np.bool_]

# Rows that are looked at for each piece that the sample did not meet.
_ROWS_OF_A_PIECE = 4
# So many entries are searched for such rows, and so many at a time.
_SEARCHED = 1 << 24
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Softmax:
    """A softmax over joined scores: ``base`` are the axes where they are one tensor.

    ``shares``: what the products of each piece are to be multiplied by, so that what is claimed
    of the first holds for them.
    """

    line: ScoreLine
    joined: Joined
    base: Axes
    dim: int
    weights: Array
    argument: Array | None
    shares: tuple[float, ...]

    @property
    def axes(self) -> Axes:
        """The axes of the weights."""
        assert self.line.axes is not None
        return self.line.axes

    def places(self, sample: Sample) -> Places:
        """The flat places of a sample in the tensor that the scores are joined in."""
        zero = np.zeros((1, 1), np.int64)
        flat = zero
        for dim in self.base.dims:
            at = zero
            for atom in dim.atoms:
                digits = sample.index.get(atom.label, zero) // atom.stride
                at = at * atom.size + digits % atom.size
            flat = flat * dim.size + at
        return flat


@dataclass
class Look:
    """What stands at the places of a sample, and which of it is visible and has a weight."""

    sample: Sample
    entries: Entries
    seen: _Marks

    def of(self, piece: int) -> _Marks:
        """Where an entry of a piece (-1: of none) is visible and has a weight."""
        mine = self.entries.piece.reshape(self.seen.shape) == piece
        return np.asarray(self.seen & mine)

    @property
    def has_others(self) -> bool:
        """Whether a number that is no product of queries and keys takes a share of a row."""
        return bool(self.of(-1).any())


def looks_at(
    softmax: Softmax, count: int, generator: np.random.Generator, holder: Holder
) -> list[Look]:
    """A sample of the rows, and where a piece shows in none of them, rows that have it."""
    values, dim = holder.values, softmax.dim
    sample = draw_seeing(softmax.line, dim, count, generator, values)
    first = _look(softmax, sample, holder)
    missing = {k for k in range(len(softmax.joined.pieces)) if not first.of(k).any()}
    none = len(missing) == len(softmax.joined.pieces)
    rows = _rows_of(missing, softmax, generator, holder)
    if not rows.size and none and first.seen.size:
        raise UnresolvedError(NOTHING_SEEN)
    if not rows.size:
        return [first]
    return [first, _look(softmax, at_rows(softmax.axes, dim, rows), holder)]


def _rows_of(
    missing: set[int], softmax: Softmax, generator: np.random.Generator, holder: Holder
) -> Places:
    """A few rows that show pieces which the sample has not met."""
    axes, dim = softmax.axes, softmax.dim
    along = max(axes.shape[dim], 1)
    total = prod(axes.shape) // along
    order = generator.permutation(total if missing else 0).astype(np.int64)
    block = max(_BLOCK // along, 1)
    found: list[Places] = []
    for start in range(0, order.size, block):
        if not missing:
            break
        if start * along > _SEARCHED:
            raise UnresolvedError(
                "a piece of the scores shows in none of the rows that were looked at, "
                "so it could not be verified"
            )
        some = order[start : start + block]
        look = _look(softmax, at_rows(axes, dim, some), holder)
        for piece in sorted(missing):
            rows = some[look.of(piece).any(-1)][:_ROWS_OF_A_PIECE]
            if rows.size:
                found.append(rows)
                missing.discard(piece)
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _look(softmax: Softmax, sample: Sample, holder: Holder) -> Look:
    weighted = np.nan_to_num(picked(softmax.weights, sample.places)) > 0
    shape = weighted.shape
    places = np.broadcast_to(softmax.places(sample), shape)
    entries = entries_at(softmax.joined, places.reshape(-1), holder)
    beside, nothing = entries.offset.reshape(shape), np.zeros(shape)
    # Whatever the products are, a row that is hidden throughout has weights and no scores.
    scores, _ = recompute(
        softmax.line, sample, 1.0, holder.values, RawScores(nothing, nothing, beside)
    )
    seen = weighted & sample.valid & ~(scores <= INVISIBLE)
    unknown = np.isnan(beside)
    if bool((unknown & seen).any()):
        raise UnresolvedError(
            "scores that are no product of queries and keys stand among the others, "
            "and their values were no longer held"
        )
    # What has no weight is hidden, whatever was there.
    entries.offset = np.where(unknown.reshape(-1), -np.inf, entries.offset)
    return Look(sample, entries, seen)


def raw_scores(softmax: Softmax, look: Look) -> RawScores:
    """The products at the places of a sample, and what stands beside them."""
    shape = look.seen.shape
    dots, sizes = np.zeros(shape).reshape(-1), np.zeros(shape).reshape(-1)
    for number, piece in enumerate(softmax.joined.pieces):
        mine = look.entries.piece == number
        if not mine.any():
            continue
        one, two = vectors_at(piece, look.entries.place[mine])
        with quiet():
            share = softmax.shares[number]
            dots[mine] = np.einsum("nd,nd->n", one, two) * share
            sizes[mine] = norms(one) * norms(two) * abs(share)
    beside = look.entries.offset.reshape(shape)
    return RawScores(dots.reshape(shape), sizes.reshape(shape), beside)


def vectors_at(piece: Piece, places: Places) -> tuple[Floats, Floats]:
    """The row and the column whose product stands at flat places of a product, (n, head_dim)."""
    product = piece.product
    index: dict[str, Places] = {}
    digits = np.unravel_index(places, product.node.shape)
    for at, dim in zip(digits, product.axes.dims, strict=True):
        for atom in dim.atoms:
            index[atom.label] = np.asarray(at, dtype=np.int64)[None, :]
    valid = np.ones((1, places.size), np.bool_)
    one, two = operand_rows(product, Sample(index, valid, []))
    width = max(one.shape[-1], two.shape[-1])
    whole = (1, places.size, width)
    return np.broadcast_to(one, whole)[0], np.broadcast_to(two, whole)[0]
