"""Rows of the weights, or of a fused output, kept for whoever captures the call."""

from __future__ import annotations

from rootdk._lib.arrays import Array
from rootdk.frontends import _tap
from rootdk.frontends._graph.trail import UnresolvedError
from rootdk.frontends._sites.masks import Masks
from rootdk.frontends._sites.pending import Pending

__all__ = ["kept_output", "kept_weights"]


def kept_weights(pending: Pending, weights: Array, masks: Masks) -> _tap.Kept | None:
    """Some rows of the weights, where they are softmax(scores) over the keys and nothing else."""
    plain = pending.axis == "keys" and pending.axis_label == "K" and not masks.extra
    arrangement, axes = pending.arrangement, pending.axes
    if not (_tap.wanted() and plain) or pending.normalisation.get("sink"):
        return None
    assert arrangement is not None
    assert axes is not None
    try:
        ordered = arrangement.beside(weights, axes)
    except UnresolvedError:
        return None
    rows = _tap.some_rows(ordered.shape[2])
    return _tap.Kept(kind="weights", array=ordered[:, :, list(rows)], rows=rows)


def kept_output(output: Array) -> _tap.Kept | None:
    """Some rows of a fused call's output, (batch, heads, queries, value_dim)."""
    if not _tap.wanted():
        return None
    rows = _tap.some_rows(output.shape[2])
    return _tap.Kept(kind="output", array=output[:, :, list(rows)], rows=rows)
