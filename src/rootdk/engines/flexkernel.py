"""``flex_attention``: the one kernel of torch that says how large the largest score of a row is.

Its auxiliary output has it, beside the logsumexp, on CUDA devices alone (torch 2.13: on others
asking for either is an error). It has to be compiled, for each shape anew, which takes seconds;
so a call is worth it once others of its shape have cost as much. What fails once is not asked
again.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

from rootdk._lib.arrays import float_info
from rootdk.engines.call import Call, UnfitError
from rootdk.engines.fusedkernels import Attended

NAME = "flex_attention"

DEVICES = frozenset({"cuda"})
"""Types of devices where the kernel has the auxiliary output."""

COMPILING = 2.0**45
"""Multiplications that compiling is worth, as :mod:`rootdk.engines.plan` counts them.

Ten seconds of a device that does some 3.5 · 10¹² of them a second in blocks: an estimate, for no
such device was at hand.
"""

BLOCK = 128
"""Rows, and keys, of a block of the mask: what the kernel is made for."""

COMPILED = 8
"""Shapes that are compiled in a process: torch compiles a function for no more, unless told to."""

_REMEMBERED = 64
"""Shapes whose costs are remembered."""

Shape: TypeAlias = tuple[Any, ...]


@dataclass(slots=True)
class _Known:
    """What this process knows of the kernel.

    Attributes
    ----------
    failed : set of (type of device, dtype)
        Where it could not be had.
    compiled : set of shape
        What it is compiled for.
    missed : mapping of shape to number
        What calls of a shape have cost without it.
    """

    failed: set[tuple[str, str]] = field(default_factory=set)
    compiled: set[Shape] = field(default_factory=set)
    missed: OrderedDict[Shape, float] = field(default_factory=OrderedDict)


_known = _Known()


def is_available(call: Call) -> bool:
    """Tell whether the kernel may be had for a call, and has not failed for one like it."""
    if call.library != "torch" or call.query.device.type not in DEVICES:
        return False
    if (call.query.device.type, dtype_of(call)) in _known.failed:
        return False
    return len(_known.compiled) < COMPILED or _shape(call) in _known.compiled


def dtype_of(call: Call) -> str:
    """Return the dtype to compute in: half types would cost the largest score its digits."""
    return "float64" if float_info(call.query).bits > 32 else "float32"


def distrust(call: Call) -> None:
    """Ask the kernel no more on such a device in such a dtype: it cannot be had, or is wrong."""
    _known.failed.add((call.query.device.type, dtype_of(call)))


def compiling(call: Call) -> float:
    """Return what is left to pay, in multiplications, before the kernel is worth compiling."""
    shape = _shape(call)
    missed = COMPILING if shape in _known.compiled else _known.missed.get(shape, 0.0)
    return max(COMPILING - missed, 0.0)


def count_missed(call: Call, cost: float) -> None:
    """Count a call that something else has measured, at a cost."""
    shape = _shape(call)
    _known.missed[shape] = _known.missed.get(shape, 0.0) + cost
    _known.missed.move_to_end(shape)
    while len(_known.missed) > _REMEMBERED:
        _known.missed.popitem(last=False)


def _shape(call: Call) -> Shape:
    arrays = (call.mask, call.bias)
    hiding = (call.causal, call.window, call.segments is None, *(one is None for one in arrays))
    sizes = (call.batch, call.num_heads, len(call.rows), call.keys, call.head_dim)
    return (*sizes, *hiding, dtype_of(call), str(call.query.device))


def attend(
    call: Call, query: Any, key: Any, value: Any, bias: Any, *, causal: bool, scale: float
) -> Attended:
    """Return what the kernel does; ``causal`` is for as many queries as keys.

    The call is what it is done for: calls like it find the kernel compiled.

    Raises
    ------
    UnfitError
        If it cannot be had.
    """
    blocks = _causal_blocks(int(query.shape[2]), query.device) if causal else None
    try:
        # The scale is in the query, for another one would be compiled anew.
        found = _compiled()(scale * query, key, value, bias, blocks)
    except Exception as error:  # compilers fail in many ways
        first = next(iter(str(error).splitlines()), "")
        why = f"{type(error).__name__}: {first}"
        raise UnfitError(f"{NAME} cannot be had: {why}") from error
    _known.compiled.add(_shape(call))
    return Attended(*found)


@cache
def _compiled() -> Any:
    import torch

    # Whole or not at all: in parts, the kernel would write out all scores. One shape at a time:
    # compiled for any shape, it has returned NaN (pytorch issue 186775).
    return torch.compile(_attend, fullgraph=True, dynamic=False)


def _attend(query: Any, key: Any, value: Any, bias: Any, blocks: Any) -> tuple[Any, Any, Any]:
    from torch.nn.attention.flex_attention import AuxRequest, flex_attention

    def biased(score: Any, batch: Any, head: Any, row: Any, at: Any) -> Any:
        return score + bias[batch, head, row, at]

    output, more = flex_attention(
        query,
        key,
        value,
        score_mod=None if bias is None else biased,
        block_mask=blocks,
        scale=1.0,
        return_aux=AuxRequest(lse=True, max_scores=True),
    )
    return output, more.lse, more.max_scores


def _causal_blocks(rows: int, device: Any) -> Any:
    """Return causal order for the kernel, from no matrix of rows and keys."""
    import torch
    from torch.nn.attention.flex_attention import BlockMask

    many = -(-rows // BLOCK)
    at = torch.arange(many, dtype=torch.int32, device=device)
    whole = at.expand(1, 1, many, many).contiguous()
    ragged = at[:, None].expand(1, 1, many, many).contiguous()
    return BlockMask.from_kv_blocks(
        torch.ones_like(at)[None, None],
        ragged,
        at[None, None].contiguous(),
        whole,
        BLOCK_SIZE=BLOCK,
        mask_mod=_is_seen,
        seq_lengths=(rows, rows),
    )


def _is_seen(batch: Any, head: Any, row: Any, at: Any) -> Any:
    return row >= at
