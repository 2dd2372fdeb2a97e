"""What the blocks of some heads share, and the blocks made of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rootdk._lib.arrays import Array, float_info, to_numpy
from rootdk.engines.call import Call, reduced_precision
from rootdk.engines.hiding import mask_of, part_of, span_of
from rootdk.engines.hostarrays import host
from rootdk.engines.kernels import Kernels, kernels_of
from rootdk.engines.rowblock import RowBlock
from rootdk.engines.tile import Tile
from rootdk.stats.block import Floats, Integers

SMALL = 2**16
"""A call of at most so many scores is computed in float64: its time is all overhead."""

LARGEST_ERROR = 2.0**-10
"""Nats that a score may be off by in float32, to first order, before float64 takes over."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Operands:
    """What the blocks of some heads of one batch element share.

    Attributes
    ----------
    element, heads
        Which they are.
    query : array, shape (num_heads, queries, head_dim)
        As given.
    key : array, shape (num_heads, keys, head_dim)
        Less its mean, in the dtype computed in.
    centre : array of float64, shape (num_heads, head_dim)
        The mean of the keys; 0 where it is not finite.
    finite : bool
        Whether every score is finite, and stays so when it is doubled a few times.
    error : array of float64, shape (num_heads, queries)
        Rounding error of a row's scores, to first order.
    arithmetic : str
        The dtype computed in.
    """

    element: int
    heads: slice
    query: Array
    key: Array
    centre: Floats
    finite: bool
    error: Floats
    arithmetic: str

    @property
    def num_heads(self) -> int:
        """How many heads they are."""
        return int(self.heads.stop - self.heads.start)


def operands_of(call: Call, element: int, heads: slice) -> Operands:
    """Return what the blocks of some heads of a batch element share."""
    of_kv = np.arange(heads.start, heads.stop) // call.queries_per_kv_head
    query = call.query[element, heads]
    key = _per_head(call.key[element], of_kv, kernels_of(call.query))
    for arithmetic in ("float32", "float64") if _may_be_float32(call) else ("float64",):
        centred, centre = _centred(key, arithmetic, call)
        norms = _norms(query, arithmetic, call)
        largest = np.max(_norms(centred, arithmetic, call), axis=-1, keepdims=True, initial=0.0)
        sizes = abs(call.scale) * norms * largest
        size = float(np.max(sizes, initial=0.0))
        if float_info(arithmetic).eps * size <= LARGEST_ERROR:  # not so for NaN
            break
    limits = float_info(arithmetic)
    return Operands(
        element=element,
        heads=heads,
        query=query,
        key=centred,
        centre=centre,
        finite=bool(np.isfinite(size)) and size < limits.max / 64.0,
        error=4.0 * limits.eps * np.where(np.isfinite(sizes), sizes, 0.0),
        arithmetic=arithmetic,
    )


def _may_be_float32(call: Call) -> bool:
    if float_info(call.query).bits > 32 or reduced_precision(call) is not None:
        return False
    return call.scores > SMALL


def _centred(key: Array, arithmetic: str, call: Call) -> tuple[Array, Floats]:
    """Return (num_heads, keys, head_dim) keys less about their mean, and what was taken off.

    The mean is rounded as they are, so that nothing wider is needed to take it off: any
    number serves that is used throughout.
    """
    xp, kernels = call.xp, kernels_of(call.query)
    centre = to_numpy(xp.sum(key, axis=-2, dtype=xp.float64)) / max(call.keys, 1)
    centre = np.where(np.all(np.isfinite(centre), axis=-1, keepdims=True), centre, 0.0)
    wide = xp.astype(key, kernels.dtype(arithmetic), copy=False)
    rounded = kernels.as_array(centre, wide)
    return wide - rounded[:, None, :], host(rounded)


def _per_head(key: Array, of_kv: Integers, kernels: Kernels) -> Array:
    distinct = np.unique(of_kv)
    shared = kernels.select(key, distinct, 0)
    if len(distinct) == len(of_kv) or len(distinct) == 1:
        return shared
    return shared[kernels.as_index(of_kv - distinct[0], shared)]


def _norms(array: Array, arithmetic: str, call: Call) -> Floats:
    """Return the Euclidean norms of the rows of a (num_heads, rows, head_dim) array."""
    xp = call.xp
    values = xp.astype(array, kernels_of(array).dtype(arithmetic), copy=False)
    return host(xp.linalg.vector_norm(values, axis=-1))


def block_of(call: Call, operands: Operands, rows: Integers) -> RowBlock:
    """Return a block of rows."""
    kernels, xp = kernels_of(call.query), call.xp
    span = span_of(call, call.reach(rows))
    query = kernels.select(operands.query, rows, 1)
    entries = to_numpy(query).astype(np.float64)
    bias = part_of(call.bias, operands.element, operands.heads, rows, span)
    mask = mask_of(call, operands.element, operands.heads, rows, span)
    scaled = kernels.as_array(entries * call.scale, operands.key)
    tame = operands.finite and (bias is None or bool(xp.all(bias < np.inf)))
    tile = Tile(
        xp=xp,
        kernels=kernels,
        query=scaled,
        key=operands.key[:, span],
        entries=entries,
        offset=call.scale * np.vecdot(entries, operands.centre[:, None]),
        mask=mask,
        bias=bias,
        softcap=call.softcap,
        starts_at_first_key=span.start == 0 and span.stop > 0,
        tame=tame,
        error=operands.error[:, rows],
    )
    return RowBlock(tile)
