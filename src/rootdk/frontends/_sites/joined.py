"""Sites whose scores are put together of pieces of several query-key products.

What is claimed: every piece carries the same factor, and each row of the softmax meets one query
with keys. What is checked by numbers: the entries of sampled rows, each from the operands of the
product that it came from; some rows of every piece that any row shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np

from rootdk._lib.arrays import Array, quiet
from rootdk.frontends._graph.axes import Atom, Axes, plain_axes
from rootdk.frontends._graph.guards import guarded
from rootdk.frontends._graph.line import ScoreLine
from rootdk.frontends._graph.operand import OperandWalk
from rootdk.frontends._graph.pieces import Joined, Piece
from rootdk.frontends._graph.trail import Trail, UnresolvedError
from rootdk.frontends._sites.arrange import Arrangement, heads_from_path, operand_tensors
from rootdk.frontends._sites.looks import Look, Softmax, looks_at, raw_scores, vectors_at
from rootdk.frontends._sites.masks import Masks
from rootdk.frontends._sites.measuring import observe
from rootdk.frontends._sites.numbers import Floats, eps_of, not_finite
from rootdk.frontends._sites.pending import Pending, settle_vectors, width_of_heads
from rootdk.frontends._sites.recompute import Mismatch, check_weights
from rootdk.frontends._sites.recording import Recording
from rootdk.frontends._sites.replay import require_operand
from rootdk.frontends._sites.sampling import Places
from rootdk.frontends._sites.sharing import kv_heads
from rootdk.frontends._sites.whole_rows import rows_measured
from rootdk.stats import Summary

__all__ = ["JoinsPieces"]

# Pieces whose factors differ by less carry the same.
_SAME = 1e-5


class JoinsPieces:
    """The part of the listener that understands scores made of several products."""

    recorder: Recording
    rows: int
    statistics: bool
    generator: np.random.Generator

    def _collect_factors(self, pending: Pending) -> None:
        raise NotImplementedError

    def _later(self, pending: Pending, measure: Callable[[Array | None], Summary | None]) -> None:
        raise NotImplementedError

    def _resolve_joined(
        self,
        pending: Pending,
        line: ScoreLine,
        joined: Joined,
        dim: int,
        weights: Array,
        argument: Array | None,
    ) -> None:
        line, base = _labelled(line, joined, dim)
        pending.line, pending.axes = line, line.axes
        trails = [self._both_trails(piece) for piece in joined.pieces]
        _agree(joined, trails)
        softmax = Softmax(line, joined, base, dim, weights, argument, _shares(trails))
        flat = Arrangement(_grown(softmax.axes, dim), (), "Q", "K")
        masks = Masks.of(line, flat, self.recorder.values, pending.addends)
        # What was hidden before the pieces were joined is not among the masks.
        pending.arrangement = None if joined.filled else flat
        operands = [operand_tensors(piece.product) for piece in joined.pieces]
        found = observe(pending, weights, argument, dim, masks, *operands[0])
        found["nonfinite_inputs"] = sum(not_finite(side) for pair in operands for side in pair)
        pending.observed.update(found)
        looks = looks_at(softmax, self.rows, self.generator, self.recorder)
        pending.mismatch = self._checked(pending, softmax, looks)
        if not pending.mismatch.within:
            raise UnresolvedError(
                "recomputed weights differ from the observed ones by "
                f"{pending.mismatch.difference:.3g} (the dtype allows "
                f"{pending.mismatch.bound:.3g})"
            )
        swapped = _swapped(joined, looks)
        pairs = [t[::-1] if s else t for t, s in zip(trails, swapped, strict=True)]
        for query, key in pairs:
            settle_vectors(query, "query")
            settle_vectors(key, "key")
        pending.query_trail = _together([query for query, _ in pairs])
        pending.key_trail = _together([key for _, key in pairs])
        self._collect_factors(pending)
        _shape(pending, joined.pieces[0], swapped[0], weights, dim)
        self._check_pieces(joined, trails)
        pending.operands = "equal"
        inside = trails[0][0].constant * trails[0][1].constant
        measure = rows_measured(pending, softmax, looks, line.scale * inside)
        if self.statistics and measure is not None:
            self._later(pending, measure)

    def _both_trails(self, piece: Piece) -> tuple[Trail, Trail]:
        product = piece.product
        walk = OperandWalk(self.recorder.values, product.node.scope)
        return walk.operand(product.rows), walk.operand(product.columns)

    def _check_pieces(self, joined: Joined, trails: list[tuple[Trail, Trail]]) -> None:
        for piece, pair in zip(joined.pieces, trails, strict=True):
            product = piece.product
            held = product.node.attrs["operands"]
            for node, tensor, trail in zip(
                (product.rows, product.columns), held, pair, strict=True
            ):
                require_operand(node, tensor, trail, self.recorder, product.node.scope)

    def _checked(self, pending: Pending, softmax: Softmax, looks: list[Look]) -> Mismatch:
        """The worst mismatch of all rows that are looked at, over how many they are."""
        worst = Mismatch(0, 0.0, 0.0)
        for look in looks:
            raw = raw_scores(softmax, look)
            if pending.score_dtype == "float16":
                largest = float(np.abs(raw.dots[np.isfinite(raw.dots)]).max(initial=0.0))
                held = pending.observed.get("largest_raw_score") or 0.0
                pending.observed["largest_raw_score"] = max(held, largest)
            found = check_weights(
                softmax.line,
                look.sample,
                softmax.line.scale,
                softmax.weights,
                softmax.argument,
                pending.score_dtype,
                self.recorder.values,
                bool(pending.normalisation.get("sink")),
                raw,
            )
            if not found.within:
                return found
            if found.difference * worst.bound >= worst.difference * found.bound:
                worst = replace(found, rows=worst.rows + found.rows)
            else:
                worst = replace(worst, rows=worst.rows + found.rows)
        if any(look.has_others for look in looks):
            pending.normalisation["sink"] = True
        return worst


def _agree(joined: Joined, trails: list[tuple[Trail, Trail]]) -> None:
    """Raise ``UnresolvedError`` unless all pieces carry one factor, of the same kinds."""
    constants, others = [], []
    for piece, (one, two) in zip(joined.pieces, trails, strict=True):
        constants.append(piece.constant * one.constant * two.constant)
        kinds = Counter(s.kind for t in (one, two) for s in t.factors if s.kind != "constant")
        others.append((kinds, len(one.vectors) + len(two.vectors)))
    low, high = min(constants, key=abs), max(constants, key=abs)
    apart = any(abs(c - constants[0]) > _SAME * abs(constants[0]) for c in constants)
    if apart and guarded("partial-write"):
        raise UnresolvedError(
            f"scores of {len(constants)} products are put together that carry different factors "
            f"({low:.6g} and {high:.6g})"
        )
    if any(other != others[0] for other in others):
        raise UnresolvedError(
            f"scores of {len(constants)} products are put together, one of them with a factor "
            "that is learned or depends on the position"
        )


def _grown(axes: Axes, dim: int) -> tuple[Atom, ...]:
    """The axes beside that of the softmax which came with a larger mask."""
    others = [held for position, held in enumerate(axes.dims) if position != dim]
    return tuple(a for held in others for a in held.atoms if a.label.startswith("new"))


def _shares(trails: list[tuple[Trail, Trail]]) -> tuple[float, ...]:
    """What makes the operands' factors in each piece those of the first.

    So the one scale that is claimed is compared with every piece, wherever its factors stand.
    """
    inside = [one.constant * two.constant for one, two in trails]
    return tuple(inside[0] / factor if factor else 1.0 for factor in inside)


def _labelled(line: ScoreLine, joined: Joined, dim: int) -> tuple[ScoreLine, Axes]:
    """The line with the axis of the softmax called K, and all others digits of Q.

    And the axes, so named, where the scores are one tensor.
    """
    axes = line.axes
    assert axes is not None
    along = {label for label in axes.labels_of(dim) if label.startswith("J")}
    if len(along) > 1:
        raise UnresolvedError("the softmax is over several axes of scores put together of pieces")
    strides: dict[str, int] = {}
    stride = 1
    for position in reversed(range(len(joined.node.shape))):
        if f"J{position}" not in along:
            strides[f"J{position}"] = stride
            stride *= joined.node.shape[position]

    def named(atom: Atom) -> Atom:
        if atom.label in strides:
            return Atom("Q", atom.size, atom.stride * strides[atom.label])
        return replace(atom, label="K") if atom.label in along else atom

    def renamed(old: Axes) -> Axes:
        return Axes(tuple(replace(d, atoms=tuple(map(named, d.atoms))) for d in old.dims))

    steps = [replace(step, axes=renamed(step.axes)) for step in line.steps]
    base = renamed(plain_axes(joined.node.shape))
    return replace(line, steps=steps, axes=renamed(axes)), base


def _swapped(joined: Joined, looks: list[Look]) -> list[bool]:
    """For each piece, whether its query is the second operand: the one that a row holds fixed."""
    found: list[bool | None] = []
    for number, piece in enumerate(joined.pieces):
        fixed = [True, True]
        for look in looks:
            mine = look.of(number)
            one, two = vectors_at(piece, look.entries.place[mine.reshape(-1)])
            row = np.nonzero(mine)[0]
            for side, vectors in enumerate((one, two)):
                fixed[side] = fixed[side] and _same_in_rows(vectors, row)
        if not any(fixed):
            raise UnresolvedError("a row of the softmax meets several queries with several keys")
        found.append(None if all(fixed) else not fixed[0])
    known = [side for side in found if side is not None]
    usual = known[0] if known else False
    return [usual if side is None else side for side in found]


def _same_in_rows(vectors: Floats, row: Places) -> bool:
    """Whether all vectors of a row are the same; ``row`` is in order."""
    if row.size < 2:
        return True
    first = np.searchsorted(row, row)
    with quiet():
        apart = np.abs(vectors - vectors[first])
        return bool(apart.max(initial=0.0) <= eps_of("float64") * np.abs(vectors).max(initial=0.0))


def _together(trails: list[Trail]) -> Trail:
    """One operand's path in all pieces: the factors are those of the first."""
    return replace(
        trails[0],
        terminals=frozenset().union(*(t.terminals for t in trails)),
        normalised=all(t.normalised for t in trails),
        learned_gain=any(t.learned_gain for t in trails),
        rotary=any(t.rotary for t in trails),
        steps=tuple(dict.fromkeys(step for t in trails for step in t.steps)),
    )


def _shape(pending: Pending, piece: Piece, swapped: bool, weights: Array, dim: int) -> None:
    """Batch, heads, queries and keys as the softmax has them."""
    product = piece.product
    query, key = (product.rows, product.columns)[:: -1 if swapped else 1]
    rows, columns = operand_tensors(product)
    keys = int(weights.shape[dim])
    total = prod(weights.shape) // max(keys, 1)
    heads = heads_from_path(query, product.rows.shape[-1]) or 1
    heads = heads if total % heads == 0 else 1
    batch = int(weights.shape[0]) if len(weights.shape) > 2 else 1
    batch = batch if batch and total % (batch * heads) == 0 else 1
    pending.shapes = {
        "batch": batch,
        "num_heads": heads,
        "num_kv_heads": kv_heads(key, heads),
        "queries": total // (batch * heads),
        "keys": keys,
        "head_dim": width_of_heads(pending, rows, columns),
    }
