"""Sampled query rows of a saved call: what the arrays predict, beside what was kept."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rootdk._lib.arrays import float_info
from rootdk.frontends._arrays.call import Kept, SavedCall

__all__ = ["Mismatch", "Rows", "compare", "draw", "each_entry", "predict"]

Floats = npt.NDArray[np.float64]
_PAIRS = 8
_INVISIBLE = -1e3


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Some query rows of one head: dot products and what was kept of them.

    ``dots`` and ``added`` are (rows, keys), ``seen`` tells which keys are visible, ``sizes`` is
    |query||key|, ``observed`` what the model made: (rows, keys), or (rows, value_dim).
    """

    dots: Floats
    sizes: Floats
    added: Floats | float
    seen: npt.NDArray[np.bool_]
    value: Floats | None
    observed: Floats


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """The largest difference found, what the dtypes allow there, and over how many rows."""

    rows: int
    difference: float
    bound: float

    @property
    def within(self) -> bool:
        """Whether the difference is one that rounding makes."""
        return self.difference <= self.bound or self.difference == 0.0


def draw(call: SavedCall, kept: Kept, rows: int, seed: int) -> tuple[Rows, ...]:
    """Return about so many rows that have a visible key, spread over at most eight heads."""
    rng = np.random.default_rng(seed)
    batch, heads = call.query.shape[:2]
    if not batch * heads * kept.rows.size or not call.key.shape[2]:
        return ()
    pairs = rng.permutation(batch * heads)
    each = max(rows // min(len(pairs), _PAIRS), 1)
    drawn: list[Rows] = []
    for pair in pairs.tolist():
        batch_at, head = divmod(pair, heads)
        seen = call.visible(batch_at, head, kept.rows)
        seen &= np.asarray(call.added(batch_at, head, kept.rows)) > -math.inf
        places = rng.permutation(np.flatnonzero(seen.any(-1)))[:each]
        if places.size:
            drawn.append(_rows(call, kept, batch_at, head, places))
        if len(drawn) == _PAIRS:
            break
    return tuple(drawn)


def _rows(
    call: SavedCall, kept: Kept, batch: int, head: int, places: npt.NDArray[np.int64]
) -> Rows:
    at = kept.rows[places]
    query = call.query[batch, head, at].astype(np.float64)
    key = call.key[batch, call.kv(head)].astype(np.float64)
    value = None
    if kept.kind == "output" and call.value is not None:
        value = call.value[batch, call.kv(head)].astype(np.float64)
    lengths = np.linalg.norm(query, axis=-1)[:, None] * np.linalg.norm(key, axis=-1)[None, :]
    return Rows(
        dots=query @ key.T,
        sizes=lengths,
        added=call.added(batch, head, at),
        seen=call.visible(batch, head, at),
        value=value,
        observed=kept.array[batch, head, places].astype(np.float64),
    )


def predict(rows: Rows, scale: float, softcap: float | None, kind: str) -> tuple[Floats, Floats]:
    """Return what a scale makes of the rows, in the form kept, and its derivative by the scale.

    With s the visible scores, w = softmax(s) and d the dot products: for scores ds/dc = d·(1 −
    (s/softcap)²); for weights w·(s' − Σ w·s'); for the output Σ w·(s' − Σ w·s')·v.
    """
    scores = rows.dots * scale
    slope = rows.dots
    if softcap is not None:
        capped = np.tanh(scores / softcap)
        scores, slope = softcap * capped, slope * (1.0 - capped**2)
    scores = np.where(rows.seen, scores + rows.added, -math.inf)
    if kind == "scores":
        return scores, np.where(rows.seen, slope, 0.0)
    weights = _softmax(scores)
    change = weights * (slope - (weights * slope).sum(-1, keepdims=True))
    if kind == "weights":
        return weights, change
    assert rows.value is not None
    return weights @ rows.value, change @ rows.value


def compare(drawn: tuple[Rows, ...], kept: Kept, call: SavedCall, scale: float) -> Mismatch:
    """Compare what a scale predicts with what was kept, entry by entry, against rounding."""
    count, worst, bound = 0, 0.0, 0.0
    for rows in drawn:
        made, _ = predict(rows, scale, call.softcap, kept.kind)
        allowed = _allowed(rows, kept, call, scale, made)
        alive = _comparable(rows, kept, made)
        gap = np.where(alive, np.abs(made - rows.observed), 0.0)
        count += int(alive.any(-1).sum())
        if not gap.size:
            continue
        place = np.unravel_index(int(np.argmax(gap - allowed)), gap.shape)
        if gap[place] - allowed[place] > worst - bound or not bound:
            worst, bound = float(gap[place]), float(allowed[place])
    return Mismatch(rows=count, difference=worst, bound=bound)


def _allowed(rows: Rows, kept: Kept, call: SavedCall, scale: float, made: Floats) -> Floats:
    """What rounding may change: the error of a dot product grows with |q||k| and log of its depth.

    The bounds are those of every other frontend, so a site verifies from a file when it did
    in the model.
    """
    eps = max(float_info(call.score_dtype).eps, float_info(call.query).eps)
    own = max(float_info(kept.precision).eps, float_info(call.score_dtype).eps)
    depth = 4.0 + math.log2(max(call.query.shape[-1], 2))
    sizes = np.nan_to_num(rows.sizes * abs(scale), posinf=0.0)
    scores, _ = predict(rows, scale, call.softcap, "scores")
    shown = np.isfinite(scores) & (scores > _INVISIBLE)
    largest = np.where(shown, np.abs(scores), 0.0).max(-1, keepdims=True, initial=0.0)
    reach = sizes.max(-1, keepdims=True, initial=0.0)
    if kept.kind == "scores":
        rounding = depth * sizes + 4.0 * np.where(shown, np.abs(scores), 0.0) + 1e-3 * reach
        return np.asarray(eps * rounding)
    slack = eps * (16.0 + 2.0 * depth * reach + 4.0 * largest)
    if kept.kind == "weights":
        return np.asarray(np.minimum(4.0 * own + 2.0 * made * slack, 1.0))
    assert rows.value is not None
    size = float(np.max(np.abs(np.nan_to_num(rows.value)), initial=0.0))
    return np.broadcast_to(own * size * (16.0 + 4.0 * reach), made.shape)


def _comparable(rows: Rows, kept: Kept, made: Floats) -> npt.NDArray[np.bool_]:
    """Rows with a visible key; and of scores the entries that no mask hides."""
    alive = np.isfinite(made) & np.isfinite(rows.observed) & rows.seen.any(-1, keepdims=True)
    if kept.kind == "scores":
        alive &= rows.seen & (rows.observed > _INVISIBLE)
    return alive


def _softmax(scores: Floats) -> Floats:
    with np.errstate(all="ignore"):
        top = scores.max(-1, keepdims=True, initial=-math.inf)
        powers = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
        total = powers.sum(-1, keepdims=True)
    return powers / np.where(total > 0.0, total, 1.0)


def each_entry(
    drawn: tuple[Rows, ...], kept: Kept, call: SavedCall, scale: float
) -> Iterator[tuple[Floats, Floats]]:
    """Yield observed minus predicted, and the slope by the scale, at every comparable entry."""
    for rows in drawn:
        made, slope = predict(rows, scale, call.softcap, kept.kind)
        alive = _comparable(rows, kept, made)
        yield (rows.observed - np.where(alive, made, 0.0))[alive], slope[alive]
