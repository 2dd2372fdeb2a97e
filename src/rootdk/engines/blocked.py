"""The blocked engine: every quantity, a block of rows at a time, in a few MiB.

Products run in float32 for inputs of at most float32, unless the scores could then be off
by more than :data:`LARGEST_ERROR`; everything that is summed over rows is summed in float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from rootdk._lib.arrays import Array, float_info, is_torch, to_numpy
from rootdk.engines import compiled
from rootdk.engines.call import Call, UnfitError, reduced_precision
from rootdk.engines.fill import Filled, empty_states, update
from rootdk.engines.kernels import Kernels, NumpyKernels, TorchKernels
from rootdk.engines.rowblock import RowBlock
from rootdk.engines.tile import Tile
from rootdk.stats.block import Floats, Integers
from rootdk.stats.statistic import BlockStatistic, Statistic, statistics

TILE = 2**19
"""Scores in one block, unless a single row has more."""

SMALL = 2**16
"""A call of at most so many scores is computed in float64: its time is all overhead."""

LARGEST_ERROR = 2.0**-10
"""Nats that a score may be off by in float32, to first order, before float64 takes over."""


def refusal(call: Call, names: set[str]) -> str | None:
    """Return why the engine cannot measure this; it always can."""
    return None


def run(call: Call, names: set[str]) -> Filled:
    """Measure the named statistics of a call."""
    if compiled.fits(call):
        try:
            return _run_compiled(call, names)
        except UnfitError:
            pass
    states, engine = _run_plain(call, names)
    return Filled(states=states, engine=f"blocked ({engine})")


def _run_compiled(call: Call, names: set[str]) -> Filled:
    known = {name for name in empty_states(names, 0) if compiled.measures(name)}
    of_rows, engine = compiled.run(call, known)
    states: dict[str, Statistic] = dict(of_rows)
    others = set(empty_states(names, 0)) - known
    if others:
        more, beside = _run_plain(call, others)
        states |= more
        engine += f"; {', '.join(sorted(others))} beside it: {beside}"
    return Filled(states=states, engine=f"blocked ({engine})")


def _run_plain(call: Call, names: set[str]) -> tuple[dict[str, Statistic], str]:
    """Return the named statistics, and what ran, with nothing but the library of the arrays."""
    call = _with_a_key(call)
    parts: list[dict[str, BlockStatistic]] = []
    used: set[str] = set()
    largest = (0, 0)
    for heads in _head_slices(call):
        states = empty_states(names, heads.stop - heads.start)
        for element in range(call.batch):
            operands = _operands(call, element, heads)
            used.add(operands.arithmetic)
            for block in _blocks(call, operands):
                states = update(states, block)
                largest = max(largest, block.size, key=lambda shape: shape[0] * shape[1])
        parts.append(states)
    known = statistics()
    stacked = {
        name: known[name].stack([part[name] for part in parts])
        for name in empty_states(names, 0)
        if parts
    }
    precision = " and ".join(sorted(used)) or "nothing to compute"
    engine = f"{call.library}, {precision}, {largest[0]}×{largest[1]}"
    return stacked or dict(empty_states(names, call.num_heads)), engine


def _with_a_key(call: Call) -> Call:
    """Return the call, with one invisible key if it has none, so that no row is of size 0."""
    if call.keys:
        return call
    like = call.query.reshape(-1)[:0]
    batch, kv_heads, _, head_dim = call.key.shape
    key = call.xp.zeros((batch, kv_heads, 1, head_dim), dtype=like.dtype, device=like.device)
    hidden = call.xp.zeros((1, 1, 1, 1), dtype=call.xp.bool, device=like.device)
    return replace(
        call, key=key, mask=hidden, bias=None, causal=None, window=(None, None), segments=None
    )


def _head_slices(call: Call) -> Iterator[slice]:
    """Yield ranges of heads: as many at once as let all their scores fit into one block."""
    of_head = max(len(call.rows) * call.keys, 1)
    together = min(max(TILE // of_head, 1), max(call.num_heads, 1))
    for start in range(0, call.num_heads, together):
        yield slice(start, min(start + together, call.num_heads))


@dataclass(frozen=True, eq=False, kw_only=True)
class _Operands:
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
    error : float
        Rounding error of a score, to first order.
    arithmetic : str
        The dtype computed in.
    """

    element: int
    heads: slice
    query: Array
    key: Array
    centre: Floats
    finite: bool
    error: float
    arithmetic: str


def _operands(call: Call, element: int, heads: slice) -> _Operands:
    xp, kernels = call.xp, _kernels(call)
    of_kv = np.arange(heads.start, heads.stop) // call.queries_per_kv_head
    query = call.query[element, heads]
    key = xp.astype(_per_head(call.key[element], of_kv, kernels), xp.float64)
    centre = to_numpy(xp.sum(key, axis=-2)) / max(call.keys, 1)
    centre = np.where(np.all(np.isfinite(centre), axis=-1, keepdims=True), centre, 0.0)
    key = key - kernels.as_array(centre, key)[:, None, :]
    size = abs(call.scale) * _largest_norm(query, call) * _largest_norm(key, call)
    chosen = _arithmetic(call, size)
    limits = float_info(chosen)
    return _Operands(
        element=element,
        heads=heads,
        query=query,
        key=xp.astype(key, kernels.dtype(chosen)),
        centre=centre,
        finite=bool(np.isfinite(size)) and size < limits.max / 64.0,
        error=4.0 * limits.eps * size if np.isfinite(size) else 0.0,
        arithmetic=chosen,
    )


def _per_head(key: Array, of_kv: Integers, kernels: Kernels) -> Array:
    distinct = np.unique(of_kv)
    shared = kernels.select(key, distinct, 0)
    if len(distinct) == len(of_kv) or len(distinct) == 1:
        return shared
    return shared[_as_index(of_kv - distinct[0], shared)]


def _as_index(indices: Integers, like: Array) -> Array:
    """Return indices as the library of an array takes them."""
    if not is_torch(like):
        return indices
    import torch

    return torch.from_numpy(indices).to(like.device)


def _largest_norm(array: Array, call: Call) -> float:
    """Return the largest Euclidean norm of a row of a (num_heads, rows, head_dim) array."""
    xp = call.xp
    if 0 in array.shape:
        return 0.0
    values = xp.astype(array, xp.float64)
    return float(xp.sqrt(xp.max(xp.sum(values * values, axis=-1))))


def _arithmetic(call: Call, size: float) -> str:
    if float_info(call.query).bits > 32 or reduced_precision(call) is not None:
        return "float64"
    if call.batch * call.num_heads * len(call.rows) * call.keys <= SMALL:
        return "float64"
    return "float32" if float_info("float32").eps * size <= LARGEST_ERROR else "float64"


def _blocks(call: Call, operands: _Operands) -> Iterator[RowBlock]:
    heads = operands.heads.stop - operands.heads.start
    step = max(TILE // max(heads * call.keys, 1), 1)
    for start in range(0, len(call.rows), step):
        yield _block(call, operands, call.rows[start : start + step])


def _block(call: Call, operands: _Operands, rows: Integers) -> RowBlock:
    kernels, xp = _kernels(call), call.xp
    first, past = call.reach(rows)
    start = min(int(np.min(first)), call.keys - 1)
    span = slice(start, max(int(np.max(past)), start + 1))
    query = kernels.select(operands.query, rows, 1)
    entries = to_numpy(query).astype(np.float64)
    bias = _slice(call.bias, operands, rows, span, kernels)
    mask = _mask(call, operands, rows, span, bias)
    scaled = kernels.as_array(entries * call.scale, operands.key)
    tame = operands.finite and (bias is None or _is_tame(bias, xp))
    tile = Tile(
        xp=xp,
        kernels=kernels,
        query=scaled,
        key=operands.key[:, span],
        entries=entries,
        offset=call.scale * np.matmul(entries, operands.centre[:, :, None])[..., 0],
        mask=mask,
        bias=bias,
        softcap=call.softcap,
        starts_at_first_key=span.start == 0 and span.stop > 0,
        tame=tame,
        error=operands.error,
    )
    return RowBlock(tile)


def _mask(
    call: Call, operands: _Operands, rows: Integers, span: slice, bias: Array | None
) -> Array | None:
    """Return which scores are visible, within the span; None if all are."""
    xp, kernels = call.xp, _kernels(call)
    first, past = call.reach(rows)
    mask = _slice(call.mask, operands, rows, span, kernels)
    if bias is not None:
        shown = bias != -np.inf
        mask = shown if mask is None else mask & shown
    if np.all(first == span.start) and np.all(past == span.stop):
        shape = (1, len(rows), span.stop - span.start)
        return None if mask is None else xp.broadcast_to(mask, (mask.shape[0], *shape[1:]))
    position = xp.arange(span.start, span.stop, device=operands.key.device)
    ends = (_as_index(end, operands.key)[:, None] for end in (first, past))
    within = ((position >= next(ends)) & (position < next(ends)))[None]
    return within if mask is None else within & mask


def _slice(
    array: Array | None, operands: _Operands, rows: Integers, span: slice, kernels: Kernels
) -> Array | None:
    """Return what a broadcast (batch, num_heads, queries, keys) array says of a block."""
    if array is None:
        return None
    part = array[operands.element if array.shape[0] > 1 else 0]
    part = part[operands.heads] if part.shape[0] > 1 else part
    part = kernels.select(part, rows, 1) if part.shape[1] > 1 else part
    return part[..., span] if part.shape[2] > 1 else part


def _is_tame(bias: Array, xp: object) -> bool:
    """Return whether the bias is finite or −∞ throughout."""
    return bool(xp.all(bias < np.inf))  # type: ignore[attr-defined]


def _kernels(call: Call) -> Kernels:
    return TorchKernels() if is_torch(call.query) else NumpyKernels()
