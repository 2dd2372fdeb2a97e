r"""The fused engine: entropy and concentration from torch's own attention kernels.

With scores s, their logsumexp L and V = K, the kernel's output A = Σ w·k gives
H = L − scale·q·A, and the logsumexp of the doubled scores gives Σw² = exp(L₂ − 2L). So two
calls of a stock kernel, and no kernel of ours, measure every row. Keys are centred first,
which changes no weight, and keeps what is subtracted small. A mask hides from both calls alike.
A bias of keys is one more value, whose mean over the weights is its expectation:
H = L − scale·q·A − E[bias]; in the second call it is doubled, as the scores are.

The kernels that return L are no public part of torch. Each is tried on a small call with a
known answer before it is believed, on each device and dtype.
"""

from __future__ import annotations

from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from rootdk._lib.arrays import float_info, is_torch, to_numpy
from rootdk.engines.added import Added, is_masked, is_spelt_out
from rootdk.engines.call import Call, reduced_precision
from rootdk.engines.entries import SOURCES
from rootdk.engines.fill import Filled, fill
from rootdk.engines.kernels import kernels_of
from rootdk.engines.softmax_rows import SoftmaxRows
from rootdk.stats.block import Floats

MEASURED = ("counts", "row_entropy", "row_logsumexp", "row_squares")
"""The statistics of scores that the kernels give."""

LARGEST_MASK = 2**24
"""Scores up to which what is hidden is spelt out for a kernel."""

ABSOLUTE, RELATIVE = 0.01, 0.01
"""An entropy may be off by so many nats, and by such a part of itself."""

_KERNELS = {
    "cpu": ("_scaled_dot_product_flash_attention_for_cpu",),
    "cuda": ("_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention"),
}
"""Kernels that return L, by type of device, the quickest first."""


def refusal(call: Call, names: set[str]) -> str | None:
    """Return why the engine cannot measure this; None if it can."""
    others = sorted(names - set(MEASURED) - set(SOURCES))
    if others:
        return f"{', '.join(others)} cannot be had from a fused kernel"
    if not is_torch(call.query):
        return f"{call.library} has no fused kernel"
    if call.softcap is not None:
        return "a softcap is no part of what the kernels' results follow from"
    if call.bias is not None and call.bias.shape[2] > 1:
        return "the expectation of a bias that differs by query is no output of a kernel"
    if is_spelt_out(call) and len(call.rows) * call.keys > LARGEST_MASK:
        return "the kernels would need all of a mask"
    if not all((call.batch, call.num_heads, call.queries, call.keys, call.head_dim)):
        return "there is nothing to compute"
    return _why_not_accurate(call)


def _why_not_accurate(call: Call) -> str | None:
    import torch

    reduced = reduced_precision(call)
    if reduced is not None:
        return reduced
    dtypes = _dtypes(call)
    if _kernel(call.query.device.type, dtypes[-1], is_masked(call)) is None:
        return f"no kernel for {call.query.device.type} and {dtypes[-1]} returns what is expected"
    key, _ = _centred(call)
    size = abs(call.scale) * _largest_norm(call.query) * _largest_norm(key)
    if call.bias is not None:
        size += float(call.bias.where(call.bias > -torch.inf, 0.0).abs().amax())
    if not float_info(dtypes[-1]).eps * size <= ABSOLUTE:  # not so for NaN
        return f"scores of up to {size:.3g} are too large for {dtypes[-1]}"
    return None


def _dtypes(call: Call) -> tuple[str, ...]:
    """Return the dtypes to compute in, in the order to try them."""
    given = float_info(call.query)
    if given.bits > 16:
        return (given.name,)
    # On a CPU half types gain nothing.
    return (given.name, "float32") if call.query.device.type == "cuda" else ("float32",)


def run(call: Call, names: set[str]) -> Filled:
    """Measure the named statistics of a call."""
    dtypes = _dtypes(call)
    for dtype in dtypes:
        found = _measure(call, names, dtype, must=dtype == dtypes[-1])
        if found is not None:
            break
    assert found is not None
    block, kernel = found
    engine = f"fused (torch, {dtype}, {kernel.removeprefix('_scaled_dot_product_')})"
    return fill([block], names, engine, call.num_heads)


def _measure(
    call: Call, names: set[str], dtype: str, *, must: bool
) -> tuple[SoftmaxRows, str] | None:
    """Return the rows of a call, and the kernel; None if they are not accurate enough."""
    import torch

    kernel = _kernel(call.query.device.type, dtype, is_masked(call))
    if kernel is None:
        return None
    key, centre = _centred(call)
    own = kernels_of(call.query).select(call.query, call.rows, 2)
    query = own.to(getattr(torch, dtype))
    key = _per_head(call, key.to(query.dtype))
    added = Added.of(call, query)
    causal = call.causal is not None and not added.spells_out_order
    value, whole = key, query.to(torch.float64 if dtype == "float64" else torch.float32)
    if added.of_key is not None:
        # Kernels want all three of one width; a zero changes no score.
        value = torch.cat([key, added.of_key], dim=-1)
        query, key = (torch.nn.functional.pad(each, (0, 1)) for each in (query, key))
    mean, logsumexp = _attend(
        kernel, query, key, value, added.bias, causal=causal, scale=call.scale
    )
    mean = mean.to(whole.dtype)
    own_mean = mean[..., : call.head_dim]
    expected = call.scale * torch.linalg.vecdot(whole, own_mean)
    if added.of_key is not None:
        expected = expected + mean[..., -1]
    entropy = _rows(logsumexp - expected)
    if not must:
        norms = [torch.linalg.vector_norm(each, dim=-1) for each in (whole, own_mean)]
        error = float_info(dtype).eps * abs(call.scale) * _rows(norms[0] * norms[1])
        if np.any(error > ABSOLUTE + RELATIVE * entropy):
            return None
    squares = None
    if "row_squares" in names:
        twice = None if added.bias is None else 2.0 * added.bias
        _, doubled = _attend(kernel, query, key, key, twice, causal=causal, scale=2.0 * call.scale)
        squares = np.minimum(_rows(doubled - 2.0 * logsumexp), 0.0)
    normaliser = None
    if "row_logsumexp" in names:
        column = _per_head(call, centre).unsqueeze(-1)
        offset = _rows(torch.matmul(own.to(torch.float64), column).squeeze(-1))
        normaliser = _rows(logsumexp) + call.scale * offset.reshape(entropy.shape)
    visible = added.visible
    return (
        SoftmaxRows(
            visible_keys=visible,
            entropy=np.clip(entropy, 0.0, np.log(np.maximum(visible, 1))),
            logsumexp=normaliser,
            log_sum_squares=squares,
        ),
        kernel,
    )


def _per_head(call: Call, of_kv_heads: Any) -> Any:
    if call.queries_per_kv_head == 1:
        return of_kv_heads
    return of_kv_heads.repeat_interleave(call.queries_per_kv_head, dim=1)


_centred_keys: WeakKeyDictionary[Call, tuple[Any, Any]] = WeakKeyDictionary()
"""Of calls that were asked about, and may yet be run."""


def _centred(call: Call) -> tuple[Any, Any]:
    """Return the keys less about their mean, and what, (batch, num_kv_heads, head_dim)."""
    import torch

    if call not in _centred_keys:
        wide = torch.float64 if float_info(call.key).bits > 32 else torch.float32
        # In no wider arithmetic than the keys: any centre serves that is used throughout.
        centre = call.key.mean(dim=2, dtype=wide)
        _centred_keys[call] = call.key.to(wide) - centre[:, :, None], centre.to(torch.float64)
    return _centred_keys[call]


def _largest_norm(array: Any) -> float:
    import torch

    wide = torch.float64 if float_info(array).bits > 32 else torch.float32
    return float(torch.linalg.vector_norm(array, dim=-1, dtype=wide).amax())


def _rows(of_batch: Any) -> Floats:
    """Return (batch, num_heads, queries) numbers as float64 (num_heads, batch · queries)."""
    values = to_numpy(of_batch).astype(np.float64)
    return np.moveaxis(values, 0, 1).reshape(values.shape[1], -1)


def _attend(
    kernel: str, query: Any, key: Any, value: Any, bias: Any, *, causal: bool, scale: float
) -> tuple[Any, Any]:
    """Return output and logsumexp of a kernel."""
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
    return output, logsumexp[..., : query.shape[2]]


@cache
def _kernel(device: str, dtype: str, masked: bool) -> str | None:
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
            output, logsumexp = _attend(
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
