"""Recompute sampled rows from what the graph claims, and compare with what was observed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rootdk._lib.arrays import Array, quiet
from rootdk.frontends._graph.line import ScoreLine, ScoreStep
from rootdk.frontends._graph.node import Node
from rootdk.frontends._graph.product import Product
from rootdk.frontends._graph.trail import UnresolvedError
from rootdk.frontends._sites.arrange import leading_labels, operand_tensors
from rootdk.frontends._sites.numbers import (
    Floats,
    doubles,
    eps_of,
    lifted,
    norms,
    picked,
    products,
    wholes,
)
from rootdk.frontends._sites.sampling import Places, Sample, at_rows, draw_sample
from rootdk.frontends._sites.values import ArrayValues

__all__ = [
    "INVISIBLE",
    "NOTHING_SEEN",
    "Mismatch",
    "RawScores",
    "check_weights",
    "dot_products",
    "draw_seeing",
    "operand_rows",
    "recompute",
    "softmax_of",
]

NOTHING_SEEN = "no row has a visible key, so nothing could be verified"
"""Why a site is unresolved whose masks hide every key from every row."""

INVISIBLE = -1e3
"""A score below this is hidden by a finite fill."""

# Entries of a block that is searched for rows with a visible key.
_BLOCK = 1 << 20


@dataclass
class Mismatch:
    """The largest difference found, what the dtype allows, and over how many rows."""

    rows: int
    difference: float
    bound: float

    @property
    def within(self) -> bool:
        return self.difference <= self.bound or self.difference == 0.0


@dataclass
class RawScores:
    """q·k and |q||k| at sampled places, and what stands beside it where the line begins."""

    dots: Floats
    sizes: Floats
    beside: Floats | None = None


def draw_seeing(
    line: ScoreLine,
    dim: int,
    rows: int,
    generator: np.random.Generator,
    values: ArrayValues,
) -> Sample:
    """Draw rows as ``draw_sample`` does, among those that have a visible key.

    Raises
    ------
    UnresolvedError
        If there are rows, and none has one.
    """
    axes = line.axes
    assert axes is not None
    sample = draw_sample(axes, dim, rows, generator)
    total = math.prod(size for position, size in enumerate(axes.shape) if position != dim)
    if not total or not axes.shape[dim] or _seeing(line, sample, values).all():
        return sample
    order = generator.permutation(total)
    found: list[Places] = []
    block = max(rows, _BLOCK // axes.shape[dim])
    for start in range(0, total, block):
        some = order[start : start + block].astype(np.int64)
        found.append(some[_seeing(line, at_rows(axes, dim, some), values)])
        if sum(map(len, found)) >= rows:
            break
    seeing = np.concatenate(found)[:rows]
    if not seeing.size:
        raise UnresolvedError(NOTHING_SEEN)
    return at_rows(axes, dim, seeing)


def _seeing(line: ScoreLine, sample: Sample, values: ArrayValues) -> npt.NDArray[np.bool_]:
    """Which of the sampled rows have a visible key, whatever their dot products are."""
    count = max((len(at) for at in sample.places), default=1)
    scores: Floats = np.zeros((count, sample.valid.shape[-1]))
    with quiet():
        for position, step in enumerate(line.steps):
            scores = _apply(step, scores, line.factor_after(position), sample, values)
    hidden = np.isneginf(scores) | (scores <= INVISIBLE)
    return np.broadcast_to(~hidden.all(-1), (count,))


def _rows_at(array: Array, labels: tuple[str, ...], sample: Sample) -> list[Places]:
    """Where the rows of (…, head_dim) at the sampled label values stand."""
    zero = np.zeros((1, 1), dtype=np.int64)
    where = []
    for label, size in zip(labels, array.shape[:-1], strict=True):
        at = sample.index.get(label, zero)
        where.append(at if size != 1 else np.zeros_like(at))
    return where


def operand_rows(product: Product, sample: Sample) -> tuple[Floats, Floats]:
    """The vectors whose products stand at the sampled places, (samples, along, head_dim)."""
    one, two = (picked(*side) for side in _sides_at(product, sample))
    return one.astype(np.float64, copy=False), two.astype(np.float64, copy=False)


_Side = tuple[Array, list[Places]]


def _sides_at(product: Product, sample: Sample) -> tuple[_Side, _Side]:
    rows, columns = operand_tensors(product)
    at_rows = _rows_at(rows, (*leading_labels(product, len(rows.shape)), "Q"), sample)
    at_columns = _rows_at(columns, (*leading_labels(product, len(columns.shape)), "K"), sample)
    return (rows, at_rows), (columns, at_columns)


def dot_products(product: Product, sample: Sample) -> tuple[Floats, Floats]:
    """q·k and |q||k| at the sampled places, (samples, along), in float64."""
    rows, columns = _sides_at(product, sample)
    for few, all_along in ((rows, columns), (columns, rows)):
        one_each = all(at.shape[1] == 1 for at in (*few[1], *all_along[1][:-1]))
        if one_each and len(all_along[1][-1]) == 1:
            return _by_group(*few, *all_along)
    one, two = operand_rows(product, sample)
    with quiet():
        dots = np.einsum("...d,...d->...", one, two)
        sizes = norms(one) * norms(two)
    return dots, sizes


def _by_group(
    few: Array, at_few: list[Places], others: Array, at_others: list[Places]
) -> tuple[Floats, Floats]:
    """One row a sample against all rows of its group: a group is brought to the host once."""
    one = picked(few, at_few)[:, 0]
    count = max((len(at) for at in (*at_few, *at_others)), default=1)
    one = np.broadcast_to(one, (count, one.shape[-1]))
    leads = np.zeros((len(at_others) - 1, count), dtype=np.int64)
    for lead, at in zip(leads, at_others, strict=False):
        lead[:] = at[:, 0]
    number = np.zeros(count, dtype=np.int64)
    for lead, size in zip(leads, others.shape, strict=False):
        number = number * size + lead
    along = at_others[-1][0]
    # Most often all of them, in order.
    some = None if np.array_equal(along, np.arange(others.shape[-2])) else along
    dots, sizes = np.empty((count, along.size)), np.empty((count, along.size))
    lengths, part = norms(one), wholes(others)
    with quiet():
        for group in np.unique(number).tolist():
            mine = np.flatnonzero(number == group)
            two = part(tuple(leads[:, mine[0]].tolist()))
            two = two if some is None else two[some]
            dots[mine] = products(one[mine], two.T, others)
            sizes[mine] = lengths[mine, None] * norms(two)
    return dots, sizes


def recompute(
    line: ScoreLine,
    sample: Sample,
    scale: float,
    values: ArrayValues,
    raw: RawScores | None = None,
) -> tuple[Floats, Floats]:
    """The final scores at the sampled places from the claimed scale and steps; and |q||k|·c."""
    if raw is None:
        raw = RawScores(*dot_products(line.product, sample))
    scores = raw.dots * scale
    if raw.beside is not None:
        scores = scores + raw.beside * line.factor_after(-1)
    for position, step in enumerate(line.steps):
        scores = _apply(step, scores, line.factor_after(position), sample, values)
    return scores, raw.sizes * abs(scale)


def _side(node: Node, step: ScoreStep, sample: Sample, values: ArrayValues) -> npt.NDArray[Any]:
    """A side operand at the sampled places: booleans, or else float64."""
    if node.value is not None and not node.shape:
        return np.asarray(node.value, dtype=np.float64)
    array = values.tensor(node)
    if array is None:
        raise UnresolvedError("a mask or bias was no longer held")
    array = lifted(array, len(step.axes.shape))
    zero = np.zeros((1, 1), dtype=np.int64)
    where = []
    for dim, have in zip(step.axes.dims, array.shape, strict=True):
        at = zero
        for atom in dim.atoms:
            label = sample.index.get(atom.label, zero)
            at = at * atom.size + (label // atom.stride) % atom.size
        where.append(at + dim.start if have != 1 else np.zeros_like(at))
    return picked(array, where)


def _apply(
    step: ScoreStep, scores: Floats, after: float, sample: Sample, values: ArrayValues
) -> Floats:
    if step.kind == "add" and step.other is not None:
        return scores + step.sign * after * _side(step.other, step, sample, values)
    if step.kind == "multiply" and step.other is not None:
        side = _side(step.other, step, sample, values).astype(np.float64)
        return scores / side if step.node.op == "div" else scores * side
    if step.kind == "fill" and step.other is not None:
        mask = _side(step.other, step, sample, values)
        hit = (mask == 0) if step.keep_when else (mask != 0)
        return np.where(hit, float(step.value or 0.0) * after, scores)
    if step.kind == "softcap":
        return np.tanh(scores / after) * after
    if step.kind == "clamp":
        low = -math.inf if step.low is None else step.low
        high = math.inf if step.value is None else step.value
        return (scores / after).clip(low, high) * after
    if step.kind == "extra":
        return _extended(step, scores, after, sample, values)
    return scores


def _extended(
    step: ScoreStep, scores: Floats, after: float, sample: Sample, values: ArrayValues
) -> Floats:
    """Concatenated columns (a sink): their own values where the product made none."""
    node, dim = step.node, step.node.attrs["dim"]
    parts = []
    for position, source in enumerate(node.inputs):
        if position == int(step.value or 0):
            parts.append(np.full(source.shape, np.nan))
            continue
        held = values.tensor(source)
        if held is None:
            raise UnresolvedError("a concatenated column was no longer held")
        parts.append(doubles(held))
    # The places are those of the softmax; they are the same here unless axes moved in between.
    if len(sample.places) != len(node.shape):
        raise UnresolvedError("concatenated scores were reshaped before the softmax")
    extra = np.concatenate(parts, dim)[tuple(sample.places)]
    return np.where(sample.valid, scores, extra * after)


def softmax_of(scores: Floats) -> Floats:
    """The softmax over the last axis; a row without a finite or visible score is NaN."""
    with quiet():
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        return np.asarray(powers / powers.sum(-1, keepdims=True))


def check_weights(
    line: ScoreLine,
    sample: Sample,
    scale: float,
    observed: Array,
    argument: Array | None,
    score_dtype: str,
    values: ArrayValues,
    ratio_only: bool,
    raw: RawScores | None = None,
) -> Mismatch:
    """Compare recomputed with observed weights, and scores where they are at hand."""
    with quiet():
        scores, sizes = recompute(line, sample, scale, values, raw)
        scores = np.broadcast_to(scores, np.broadcast_shapes(scores.shape, sample.valid.shape))
        eps = eps_of(score_dtype)
        # A row whose keys are all hidden by a finite fill has lost its scores to rounding.
        alive = np.any(np.isfinite(scores) & (scores > INVISIBLE), axis=-1)
        alive = np.asarray(alive & np.isfinite(sizes).all(-1))
        # The error of a sum of n products grows with its depth.
        width = line.product.rows.shape[-1] if line.product.rows.shape else 1
        depth = 4.0 + math.log2(max(width, 2))
        worst = Mismatch(int(alive.sum()), 0.0, 0.0)
        if argument is not None:
            given = picked(argument, sample.places)
            worst = _score_gap(given, scores, sizes, alive, line.shifted, eps, depth)
            if worst.difference > worst.bound:
                return worst
        slack = eps * (16.0 + 2.0 * depth * sizes.max(-1, initial=0.0) + 4.0 * _largest(scores))
        seen = picked(observed, sample.places)
        if ratio_only:
            seen = seen / seen.sum(-1, keepdims=True)
        found = _weight_gap(softmax_of(scores), seen, alive, slack, eps_of(observed))
    if found is not None and (found.difference > found.bound or argument is None):
        return found
    return worst


def _score_gap(
    given: Floats,
    scores: Floats,
    sizes: Floats,
    alive: npt.NDArray[np.bool_],
    shifted: bool,
    eps: float,
    depth: float,
) -> Mismatch:
    """The largest difference of scores, against what their dtype allows at that place."""
    both = np.isfinite(given) & np.isfinite(scores) & (given > INVISIBLE)
    both &= alive[:, None] & np.isfinite(sizes)
    apart = np.where(both, given - scores, 0.0)
    if shifted:
        # A number per row was subtracted before the softmax; it changes nothing.
        apart = apart - apart.sum(-1, keepdims=True) / both.sum(-1, keepdims=True).clip(1)
    off = np.where(both, np.abs(apart), 0.0)
    sized = np.where(np.isfinite(given), np.abs(given), 0.0)
    allowed = eps * (depth * sizes + 4.0 * sized + 1e-3 * sizes.max(initial=0.0)) + 1e-30
    found = _at_worst(off, np.broadcast_to(allowed, off.shape), alive, np.divide)
    return found or Mismatch(int(alive.sum()), 0.0, 0.0)


def _weight_gap(
    weights: Floats,
    seen: Floats,
    alive: npt.NDArray[np.bool_],
    slack: Floats,
    eps: float,
) -> Mismatch | None:
    """The largest difference of weights, against what the dtypes allow at that place."""
    alive = alive & np.isfinite(seen).all(-1) & np.isfinite(weights).all(-1)
    gap = np.where(alive[:, None], np.abs(weights - seen), 0.0)
    allowed = 4.0 * eps + 2.0 * weights * np.atleast_1d(slack)[:, None]
    allowed = np.nan_to_num(allowed.clip(max=1.0), nan=0.0)
    return _at_worst(gap, np.broadcast_to(allowed, gap.shape), alive, np.subtract)


def _at_worst(
    gap: Floats, allowed: Floats, alive: npt.NDArray[np.bool_], against: Any
) -> Mismatch | None:
    if not gap.size:
        return None
    excess = np.nan_to_num(against(gap, allowed), nan=0.0)
    place = int(excess.reshape(-1).argmax())
    bound = float(allowed.reshape(-1)[place])
    difference = float(gap.reshape(-1)[place])
    return Mismatch(int(alive.sum()), difference, 0.0 if math.isnan(bound) else bound)


def _largest(scores: Floats) -> Floats:
    seen = np.isfinite(scores) & (scores > INVISIBLE)
    return np.asarray(np.where(seen, np.abs(scores), 0.0).max(-1, initial=0.0))
