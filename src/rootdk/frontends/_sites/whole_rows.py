"""Statistics of scores put together of pieces, read off the softmax's own argument.

There is no one product to measure. Where nothing but factors and masks stands between the
products and the softmax, its argument holds the scaled scores themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
import numpy.typing as npt

from rootdk._lib.arrays import Array
from rootdk.engines.given import measure_given
from rootdk.frontends._sites.looks import Look, Softmax
from rootdk.frontends._sites.numbers import picked
from rootdk.frontends._sites.pending import Pending
from rootdk.frontends._sites.recompute import INVISIBLE
from rootdk.frontends._sites.sampling import Places
from rootdk.stats import Summary

__all__ = ["rows_measured"]

# Scores that are brought to the host, and rows of all heads; of more, a sample of the rows.
_SCORES = 1 << 20
_ROWS = 1 << 14
_STEPS = frozenset({"factor", "add", "fill"})
_WITHOUT = "the scores were put together of several products, whose entries are not measured"


def rows_measured(
    pending: Pending, softmax: Softmax, looks: list[Look], scale: float
) -> Callable[[Array | None], Summary | None] | None:
    """What measures the site once its weights meet values; None where that would not be exact.

    ``scale`` is what all products were multiplied by.
    """
    argument, shape, dim = softmax.argument, softmax.axes.shape, softmax.dim
    heads = pending.shapes["num_heads"]
    if argument is None or not _plain(pending, softmax, looks):
        return None
    axis = _head_axis(softmax, looks, heads) if heads > 1 else None
    if heads > 1 and axis is None:
        return None
    places = _places(shape, dim, heads, axis)
    scores = np.asarray(picked(argument, places), dtype=np.float64)
    return lambda _: measure_given(
        scores,
        ~(scores <= INVISIBLE),
        scale=scale,
        head_dim=pending.shapes["head_dim"],
        score_dtype=pending.score_dtype,
        rows=prod(shape) // max(heads * shape[dim], 1),
        without_entries=_WITHOUT,
    )


def _plain(pending: Pending, softmax: Softmax, looks: list[Look]) -> bool:
    """Whether visible entries of the softmax's argument are scaled scores and nothing else."""
    line = softmax.line
    if line.shifted or line.softcap is not None or not {s.kind for s in line.steps} <= _STEPS:
        return False
    for addend in pending.addends:
        if addend.kind != "mask" or addend.fill is None or addend.fill > INVISIBLE:
            return False
    for look in looks:
        offset = look.entries.offset.reshape(look.seen.shape)
        if look.has_others or bool((offset[look.seen] != 0).any()):
            return False
    return True


def _head_axis(softmax: Softmax, looks: list[Look], heads: int) -> int | None:
    """The axis of the weights whose last digit numbers the heads; None if no one axis does.

    A batched product has batch, heads and blocks in front, as axes or merged into one, in that
    order: the place of an entry there holds its head as a digit. Wherever an entry was looked at,
    that digit is compared with the places of the axis.
    """
    shape, dim = softmax.axes.shape, softmax.dim
    fitting = [i for i, size in enumerate(shape) if i != dim and size and size % heads == 0]
    for number, piece in enumerate(softmax.joined.pieces):
        whole = piece.product.node.shape
        seen = [(look, look.of(number)) for look in looks]
        leading = [
            look.entries.place[mine.reshape(-1)] // max(prod(whole[-2:]), 1) for look, mine in seen
        ]
        fitting = [
            axis
            for axis in fitting
            if _holds(np.concatenate(leading), prod(whole[:-2]), _at(axis, seen) % heads, heads)
        ]
    return fitting[0] if len(fitting) == 1 else None


def _at(axis: int, seen: list[tuple[Look, npt.NDArray[np.bool_]]]) -> Places:
    """Where along an axis of the weights the entries stand that were looked at."""
    return np.concatenate(
        [np.broadcast_to(look.sample.places[axis], mine.shape)[mine] for look, mine in seen]
    )


def _holds(leading: Places, size: int, digit: Places, heads: int) -> bool:
    """Whether a number below ``size`` has this digit, base ``heads``, at some one place value."""
    if not digit.size or size % heads:
        return False
    inner = (each for each in range(1, size // heads + 1) if size // heads % each == 0)
    return any(bool((leading // each % heads == digit).all()) for each in inner)


def _places(shape: tuple[int, ...], dim: int, heads: int, axis: int | None) -> list[Places]:
    """Index arrays (heads, rows, keys) into the weights, of all rows or a sample of them."""
    rest = [i for i in range(len(shape)) if i != dim]
    sizes = tuple(shape[i] // heads if i == axis else shape[i] for i in rest)
    count = prod(sizes)
    few = max(min(_SCORES // max(shape[dim], 1), _ROWS) // heads, 1)
    chosen = np.arange(count)
    if count > few:
        chosen = np.sort(np.random.default_rng(0).choice(count, few, replace=False))
    digits = np.unravel_index(chosen, sizes) if sizes else ()
    found: list[Places] = [np.zeros((1, 1, 1), np.int64)] * len(shape)
    for at, digit in zip(rest, digits, strict=True):
        found[at] = np.asarray(digit, np.int64)[None, :, None]
    if axis is not None:
        found[axis] = found[axis] * heads + np.arange(heads, dtype=np.int64)[:, None, None]
    found[dim] = np.arange(shape[dim], dtype=np.int64)[None, None, :]
    return found
