"""Statistics and observations of one site, taken while its arrays are alive."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from rootdk._lib.arrays import Array, compute_dtype, dtype_name, namespace, quiet
from rootdk.attention.masks import Causal
from rootdk.engines import measure
from rootdk.frontends import _tap
from rootdk.frontends._graph.line import ScoreLine
from rootdk.frontends._graph.trail import UnresolvedError
from rootdk.frontends._sites.arrange import leading_labels
from rootdk.frontends._sites.masks import Masks
from rootdk.frontends._sites.numbers import (
    Floats,
    chosen,
    count,
    doubles,
    not_finite,
    plain,
    summed,
)
from rootdk.stats import Summary

if TYPE_CHECKING:
    from rootdk.frontends._sites.pending import Pending

__all__ = ["largest_raw_score", "measure_call", "measure_site", "observe", "row_sums"]


def measure_site(
    pending: Pending,
    rows: Array,
    columns: Array,
    scale: float,
    masks: Masks,
    value: Array | None,
    inputs: Array | None,
    causal: Causal | None = None,
) -> Summary | None:
    """The statistics of the site, per head; what causal order hides, no mask has to."""
    arrangement, line = pending.arrangement, pending.line
    assert arrangement is not None
    assert line is not None
    if not masks.usable:
        return None
    product = line.product
    one = arrangement.operand(rows, leading_labels(product, len(rows.shape)))
    two = arrangement.operand(columns, leading_labels(product, len(columns.shape)))
    query, key = (one, two) if pending.axis_label == "K" else (two, one)
    query_trail, key_trail = pending.query_trail, pending.key_trail
    assert query_trail is not None
    assert key_trail is not None
    query_factor, key_factor = query_trail.constant, key_trail.constant
    return measure_call(
        query,
        key,
        scale * query_factor * key_factor,
        query_factor,
        key_factor,
        mask=masks.mask,
        bias=masks.bias,
        causal=causal,
        softcap=line.softcap,
        score_dtype=pending.score_dtype,
        inputs=inputs,
        value=value,
        kept=pending.kept,
    )


def measure_call(
    query: Array,
    key: Array,
    scale: float,
    query_factor: float,
    key_factor: float,
    *,
    mask: Array | None,
    bias: Array | None,
    softcap: float | None,
    score_dtype: str,
    causal: Causal | None = None,
    value: Array | None = None,
    inputs: Array | None = None,
    kept: _tap.Kept | None = None,
) -> Summary:
    """Measure with the constant factors moved off the operands and into the scale."""
    xp, working = namespace(query), compute_dtype(query)
    if query_factor not in {1.0, 0.0}:
        query = xp.astype(query, working) / query_factor
    if key_factor not in {1.0, 0.0}:
        key = xp.astype(key, working) / key_factor
    if query.dtype != key.dtype:
        query, key = xp.astype(query, working), xp.astype(key, working)
    if bias is not None:
        bias = xp.astype(bias, query.dtype)
    if value is not None and value.dtype != query.dtype:
        value = xp.astype(value, query.dtype)
    query, key = plain(query), plain(key)
    given: dict[str, Any] = {
        "scale": scale,
        "mask": mask,
        "bias": bias,
        "causal": causal,
        "softcap": softcap,
        "score_dtype": score_dtype,
        "inputs": inputs,
    }
    summary = measure(query, key, value, **given)
    _tap.offer(
        _tap.Measured(summary=summary, query=query, key=key, value=value, kept=kept, **given)
    )
    return summary


def largest_raw_score(line: ScoreLine, summary: Summary) -> float | None:
    """The largest |query·key| as the product's own dtype had to hold it, before later factors.

    A factor inside the product (alpha of baddbmm) is applied before the result is rounded.
    """
    later = (s for s in line.steps if s.kind == "factor" and s.node is not line.product.node)
    scale = math.prod(abs(s.value) for s in later if s.value is not None)
    ends = np.abs(np.concatenate([summary["min_score"], summary["max_score"]]))
    ends = ends[np.isfinite(ends)]
    return float(ends.max()) / scale if scale and ends.size else None


def observe(
    pending: Pending,
    weights: Array,
    argument: Array | None,
    dim: int,
    masks: Masks,
    rows: Array,
    columns: Array,
) -> dict[str, Any]:
    """Counts and extremes read off the tensors of one softmax."""
    found: dict[str, Any] = {}
    found["nonfinite_inputs"] = not_finite(rows) + not_finite(columns)
    sums = doubles(summed(weights, dim))
    if argument is not None:
        # A softmax over NaN or +inf is NaN throughout, and then so is its sum.
        tells = pending.normalisation["exponentials"] == "kernel" and np.isfinite(sums).all()
        found["nonfinite_scores"] = 0 if tells else _not_a_score(argument)
    found.update(_ends_of(sums))
    forbidden = _forbidden(pending, weights, dim, masks)
    if forbidden is not None:
        found["forbidden_weight"], found["empty_rows_nan"] = forbidden
    return found


def row_sums(weights: Array, dim: int) -> dict[str, float]:
    """The smallest and the largest sum over ``dim``, of rows that are not 0 throughout."""
    return _ends_of(doubles(summed(weights, dim)))


def _ends_of(sums: Floats) -> dict[str, float]:
    alive = sums[np.isfinite(sums) & (sums != 0)]
    if not alive.size:
        return {}
    return {"row_sum_min": float(alive.min()), "row_sum_max": float(alive.max())}


def _not_a_score(scores: Array) -> int:
    """NaN and +inf entries; -inf is how a mask speaks."""
    xp = namespace(scores)
    # NaN passes through a maximum, and is below nothing: one pass instead of five.
    if 0 in scores.shape or bool(xp.max(scores) < float("inf")):
        return 0
    bad = xp.isnan(scores) | (scores == float("inf"))
    return int(xp.sum(xp.astype(bad, xp.int64)))


def _forbidden(
    pending: Pending, weights: Array, dim: int, masks: Masks
) -> tuple[float | None, int] | None:
    """The largest weight on a hidden key in a row that has a visible one; NaN empty rows."""
    arrangement, axes = pending.arrangement, pending.axes
    hiding = masks.mask if masks.suspect is None else masks.suspect
    if hiding is None or arrangement is None or axes is None or masks.extra:
        return None
    if dim != len(axes.dims) - 1 or pending.axis_label != "K" or pending.axis != "keys":
        return None
    try:
        ordered = arrangement.beside(weights, axes)
    except UnresolvedError:
        return None
    largest, nans = _weight_beyond(ordered, hiding)
    if masks.either:
        largest = min(largest, _weight_beyond(ordered, ~hiding)[0])
    return largest, nans


def _weight_beyond(weights: Array, visible: Array) -> tuple[float, int]:
    xp = namespace(weights)
    some = xp.any(visible, axis=-1, keepdims=True)
    if _nothing_on(weights, ~visible & some):
        return 0.0, 0
    lost = xp.isnan(weights)
    nans = xp.all(lost, axis=-1, keepdims=True) & ~some
    hidden = chosen(visible | ~some | lost, 0.0, weights)
    largest = float(xp.max(hidden)) if count(hidden) else 0.0
    return largest, int(xp.sum(xp.astype(nans, xp.int64)))


def _nothing_on(weights: Array, hidden: Array) -> bool:
    """Whether all weights are numbers, and those on hidden keys 0; False where that is dear.

    Weights are not negative, so their sum tells, and a product with zeros and ones is that sum
    without a copy of the weights. NaN leaves no sum of 0.
    """
    shape = tuple(weights.shape)
    if dtype_name(weights) not in {"float32", "float64"} or 0 in shape:
        return False
    if tuple(hidden.shape[-2:]) != shape[-2:] or hidden.shape[1] != 1:
        return False
    xp = namespace(weights)
    entries = shape[-2] * shape[-1]
    on = xp.astype(hidden, weights.dtype).reshape((-1, entries, 1))
    with quiet():
        return bool(xp.all(weights.reshape((*shape[:2], entries)) @ on == 0))
