"""A scale that is not one number: along which axis of the scores, or which channel, it changes."""

from __future__ import annotations

import numpy as np

from rootdk.identify.bench import Bench
from rootdk.identify.fitting import Fit
from rootdk.identify.subject import Floats
from rootdk.records import Varies

__all__ = ["entrywise", "variations"]

_AXES = {"query": 2, "head": 1, "batch": 0, "key": 3}


def variations(bench: Bench, found: Fit, axis: str) -> tuple[Varies, ...]:
    """Return along what the scale changes; empty where no one axis accounts for it."""
    if axis != "keys":
        return ()
    ratios = entrywise(bench, found.amplitude)
    if ratios is not None:
        single = _along_one(ratios)
        if single is not None:
            return (single,)
    channel = _by_channel(bench, found)
    return (channel,) if channel is not None else ()


def entrywise(bench: Bench, amplitude: float) -> Floats | None:
    """Return the scale of every single score, None where the first key is hidden.

    The first key is 0, so that its score is 0 whatever the scale, and every other score is its
    log-weight less that of the first.
    """
    query, key = _same_signs(bench, amplitude)
    scores = bench.log_weights(bench.weights(query, key))
    zero = bench.log_weights(bench.weights(np.zeros_like(query), key))
    scores = (scores - scores[..., :1]) - (zero - zero[..., :1])
    products = query @ key.swapaxes(-1, -2)
    with np.errstate(all="ignore"):
        ratios = np.asarray((scores / products)[..., 1:])
    return ratios if np.isfinite(ratios).any() else None


def _same_signs(bench: Bench, amplitude: float) -> tuple[Floats, Floats]:
    """Return query and key no product of which is near 0, but those of the first key."""
    sizes, rng = bench.sizes, bench.rng
    query = 1.0 + 0.3 * rng.standard_normal(
        (sizes.batch, sizes.heads, sizes.queries, sizes.head_dim)
    )
    key = 1.0 + 0.3 * rng.standard_normal((sizes.batch, sizes.kv_heads, sizes.keys, sizes.head_dim))
    key *= np.where(np.arange(sizes.keys) % 2, 1.0, -1.0)[:, None]
    key[:, :, 0] = 0.0
    # Products are about head_dim, not √head_dim as those of random signs are.
    return bench.subject.rounded(
        amplitude * query / np.sqrt(sizes.head_dim)
    ), bench.subject.rounded(key)


def _along_one(ratios: Floats) -> Varies | None:
    """Return the variation along the one axis whose groups are each of one scale."""
    size = float(np.nanmax(np.abs(ratios)))
    if size == 0.0:
        return None
    for name, axis in _AXES.items():
        others = tuple(a for a in range(4) if a != axis)
        if ratios.shape[axis] < 2:
            continue
        with np.errstate(all="ignore"):
            means = np.nanmean(ratios, axis=others)
            inside = np.nanmax(np.abs(ratios - np.expand_dims(means, others)))
        if not np.isfinite(means).all():
            continue
        between = float(np.max(means) - np.min(means))
        if inside <= 2e-3 * size and between > 4.0 * inside:
            first = 1 if name == "key" else 0
            return Varies(
                along=name,  # type: ignore[arg-type]
                at=tuple(range(first, first + len(means))),
                scales=tuple(float(m) for m in means),
            )
    return None


def _by_channel(bench: Bench, found: Fit) -> Varies | None:
    """Return one scale a channel of head_dim, if scores are a weighted sum of the channels."""
    terms = found.query[:, :, :, None, :] * found.key[:, :, None, :, :]
    seen = np.isfinite(found.scores)
    count = np.maximum(seen.sum(axis=-1, keepdims=True), 1)[..., None]
    mean = np.where(seen[..., None], terms, 0.0).sum(axis=-2, keepdims=True) / count
    rows = (terms - mean)[seen]
    target = found.scores[seen]
    if len(target) < 3 * rows.shape[1]:
        return None
    scales = np.linalg.lstsq(rows, target, rcond=None)[0]
    off = float(np.max(np.abs(target - rows @ scales)))
    if off > 4.0 * bench.tolerance(found.reach) or float(np.ptp(scales)) < 1e-3 * abs(
        float(scales.mean())
    ):
        return None
    return Varies(
        along="channel", at=tuple(range(len(scales))), scales=tuple(float(s) for s in scales)
    )
