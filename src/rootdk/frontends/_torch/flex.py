"""flex_attention: read its score_mod and mask_mod by calling them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from rootdk.frontends._sites.call import Call
from rootdk.records import Addend

__all__ = ["understand"]

# Above this many entries the modifiers are not written out over all scores.
_WRITTEN_OUT = 1 << 26


def understand(
    args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Call, float | None, str | None]:
    """The call, a further constant factor from score_mod, and why it is not understood."""
    query, key, value, score_mod, block_mask, scale = args[:6]
    score_buffers = args[7] if len(args) > 7 else kwargs.get("score_mod_other_buffers", ())
    mask_buffers = args[8] if len(args) > 8 else kwargs.get("mask_mod_other_buffers", ())
    call = Call(query.detach(), key.detach(), value.detach(), float(scale))
    batch, heads, queries, _ = query.shape
    keys = key.shape[2]
    if batch * heads * queries * keys > _WRITTEN_OUT:
        return call, None, "flex_attention with more scores than its modifiers are read at"
    index = [
        torch.arange(n, device=query.device).reshape(tuple(n if j == i else 1 for j in range(4)))
        for i, n in enumerate((batch, heads, queries, keys))
    ]
    shape = (batch, heads, queries, keys)

    def modified(score: float) -> torch.Tensor:
        scores = torch.full(shape, score, dtype=torch.float32, device=query.device)
        out: torch.Tensor = score_mod(scores, *index, *score_buffers)
        return out.detach().float().expand(shape)

    try:
        visible = block_mask[-1](*index, *mask_buffers)
        zero = modified(0.0)
        hidden = torch.isinf(zero) & (zero < 0)
        slope = (modified(1e-2) - zero) / 1e-2
        far = modified(1e4)
    except (RuntimeError, TypeError, IndexError, ValueError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        return call, None, f"the modifiers of flex_attention could not be read: {first}"
    visible = torch.as_tensor(visible, device=query.device).expand(shape) & ~hidden
    if not bool(visible.all()):
        call.visible = visible
        call.fills.append(Addend(kind="mask", fill=-math.inf))
    return _read(call, zero, slope, far, ~hidden)


def _read(
    call: Call, zero: torch.Tensor, slope: torch.Tensor, far: torch.Tensor, seen: torch.Tensor
) -> tuple[Call, float | None, str | None]:
    """A bias, a constant factor or a softcap from the modifier at three scores."""
    if not bool(seen.any()):
        return call, None, None
    bias = torch.where(seen, zero, torch.zeros_like(zero))
    low, high = float(slope[seen].min()), float(slope[seen].max())
    if high - low > 1e-3 * max(abs(low), abs(high), 1e-3):
        return call, None, "score_mod multiplies scores by factors that differ by position"
    factor = (low + high) / 2
    reach = float((far - zero)[seen].abs().max())
    if reach < 0.5 * abs(factor) * 1e4:
        if bool((bias != 0).any()) or abs(factor - 1.0) > 1e-2:
            return call, None, "score_mod is neither a factor, a bias nor a softcap"
        call.softcap = reach
        return call, None, None
    if bool((bias != 0).any()):
        call.bias = bias
        call.fills.append(Addend(kind="bias"))
    if abs(factor - 1.0) <= 1e-3:
        return call, None, None
    call.scale *= factor
    return call, factor, None
