"""Torch's own attention kernels that say more than the output: each is tried before it is believed.

They are no public part of torch. So each has to do to a small call, whose answer is known, what it
should, on each device and dtype; and of each call some rows are computed anew.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from rootdk._lib.arrays import float_info
from rootdk.engines.call import UnfitError

_KERNELS = {
    "cpu": ("_scaled_dot_product_flash_attention_for_cpu",),
    "cuda": ("_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention"),
}
"""Kernels that return the logsumexp, by type of device, the quickest first."""


_ROUNDINGS = 16.0
"""Roundings, each of the largest that a score may be, that a kernel's numbers may be off by.

Beside those of the sum of exponentials, which go about as far as a random walk does.
"""


class Attended(NamedTuple):
    """What a kernel returns.

    Attributes
    ----------
    output : tensor, shape (batch, heads, rows, head_dim)
        Means of the values by weight.
    logsumexp : tensor, shape (batch, heads, rows)
        Of the final scores.
    largest : tensor, shape (batch, heads, rows), or None
        The largest final score of each row, if the kernel says so.
    """

    output: Any
    logsumexp: Any
    largest: Any | None = None


def attend(
    kernel: str, query: Any, key: Any, value: Any, bias: Any, *, causal: bool, scale: float
) -> Attended:
    """Return what a kernel does; ``causal`` is for as many queries as keys."""
    import torch

    operator = getattr(torch.ops.aten, kernel)
    if kernel.endswith("efficient_attention"):
        output, logsumexp, *_ = operator(
            query, key, value, bias, True, 0.0, is_causal=causal, scale=scale
        )
    elif bias is None:
        output, logsumexp, *_ = operator(query, key, value, 0.0, causal, scale=scale)
    else:
        output, logsumexp, *_ = operator(
            query, key, value, 0.0, causal, attn_mask=bias, scale=scale
        )
    # Some kernels pad the rows.
    return Attended(output, logsumexp[..., : query.shape[2]])


class SomeRows:
    """Some rows of a call, to be computed anew and held against what a kernel returned.

    Parameters
    ----------
    query, key, value : tensor, shape (batch, num_heads, rows or keys, head_dim)
        As the kernel is given them.
    bias : tensor, shape (batch, num_heads, rows, keys), or None
        What is added, −∞ where hidden.
    causal : bool
        Whether rows see no later key.
    scale : float
        What products are scaled by.
    largest : tuple of two float
        What scores and entries of values are at most: rounding is in proportion to it.
    """

    def __init__(
        self,
        query: Any,
        key: Any,
        value: Any,
        bias: Any,
        *,
        causal: bool,
        scale: float,
        largest: tuple[float, float],
    ) -> None:
        import torch

        wide = torch.float64 if query.dtype == torch.float64 else torch.float32
        self._rows = sorted({0, query.shape[2] // 2, query.shape[2] - 1})
        some = query[:, :, self._rows].to(wide)
        self._scores = scale * some @ key.to(wide).transpose(-1, -2)
        self._added = torch.zeros((), dtype=wide, device=key.device)
        if bias is not None:
            self._added = bias[:, :, self._rows].to(wide)
        if causal:
            position = torch.arange(key.shape[2], device=key.device)
            last = torch.as_tensor(self._rows, device=key.device)[:, None]
            self._added = self._added.masked_fill(position > last, -torch.inf)
        self._value = value
        self._largest = largest
        self._eps = float_info(query).eps

    def check(self, found: Attended, *, times: float = 1.0) -> None:
        """Hold against the rows what a kernel found for scores so many times as large.

        What is added is so, too, unless the number is negative. The output is held against
        them once only.

        Raises
        ------
        UnfitError
            If anything is further off than rounding explains.
        """
        import torch

        scores = times * self._scores + max(times, 1.0) * self._added
        largest, entry = self._largest
        rounding = _ROUNDINGS * (1.0 + abs(times) * largest) + scores.shape[-1] ** 0.5
        within, top = self._eps * rounding, scores.amax(-1)
        self._compare("logsumexp", found.logsumexp, torch.logsumexp(scores, -1), within, top)
        if found.largest is not None:
            self._compare("largest score", found.largest, top, within, top)
        if self._value is not None:
            output = torch.softmax(scores, -1) @ self._value.to(scores.dtype)
            self._compare("output", found.output, output, 2.0 * within * entry, top)
            self._value = None

    def _compare(self, name: str, found: Any, exact: Any, within: float, top: Any) -> None:
        import torch

        off = (found[:, :, self._rows].to(exact.dtype) - exact).abs()
        # What a row that sees nothing has, differs between kernels.
        shown = (top > -torch.inf).reshape(top.shape + (1,) * (off.ndim - top.ndim))
        if not bool(((off <= within) | ~shown).all()):
            worst = float(torch.where(shown, off, 0.0).amax())
            raise UnfitError(
                f"the {name} that a kernel returned is off by {worst:.3g} in some rows"
            )


@cache
def kernel_for(device: str, dtype: str, masked: bool) -> str | None:
    """Return the first kernel that does to a small call what it should."""
    names = _KERNELS.get(device, ())
    return next((name for name in names if _holds(name, device, dtype, masked)), None)


def _holds(kernel: str, device: str, dtype: str, masked: bool) -> bool:
    import torch

    values = torch.linspace(-1.0, 1.0, 2 * 9 * 8, dtype=torch.float64, device="cpu")
    query = torch.sin(37.0 * values).reshape(1, 2, 9, 8).to(device, getattr(torch, dtype))
    key = torch.cos(53.0 * values).reshape(1, 2, 9, 8).to(query)
    hidden = torch.ones(9, 9, dtype=torch.bool, device=device).triu(1)
    bias = torch.where(hidden, -torch.inf, query[:, :, :, :1]).to(query.dtype)
    for causal in (False,) if masked else (False, True):
        try:
            output, logsumexp, _ = attend(
                kernel, query, key, key, bias if masked else None, causal=causal, scale=0.7
            )
        except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError):
            return False
        scores = 0.7 * query.double() @ key.double().transpose(-1, -2)
        scores = scores + bias.double() if masked else scores
        if causal:
            scores = scores.masked_fill(hidden, -torch.inf)
        exact = torch.logsumexp(scores, -1), torch.softmax(scores, -1) @ key.double()
        within = 16.0 * float_info(dtype).eps
        if logsumexp.shape != exact[0].shape or output.shape != exact[1].shape:
            return False
        near = (logsumexp.double() - exact[0]).abs().max(), (output.double() - exact[1]).abs().max()
        if not all(float(apart) <= within for apart in near):
            return False
    return True
