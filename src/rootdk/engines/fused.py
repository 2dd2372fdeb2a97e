r"""The fused engine: entropy and concentration from torch's own attention kernels.

With scores s, their logsumexp L and V = K, the kernel's output A = Σ w·k gives
H = L − scale·q·A, and the logsumexp of the doubled scores gives Σw² = exp(L₂ − 2L). So two
calls of a stock kernel, and no kernel of ours, measure every row. Keys are centred first,
which changes no weight, and keeps what is subtracted small. A mask hides from both calls alike.
A bias of keys is one more value, whose mean over the weights is its expectation:
H = L − scale·q·A − E[bias]; in the second call it is doubled, as the scores are.

Largest scores, and with them the largest weights, are what flex_attention returns beside its
output, on devices where it does; elsewhere they come from blocks. What a kernel returned is
believed once some rows of it have been recomputed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from rootdk._lib.arrays import float_info, is_torch, to_numpy
from rootdk.engines import blocked, flexkernel
from rootdk.engines.added import Added, is_masked, is_spelt_out
from rootdk.engines.call import Call, UnfitError, reduced_precision
from rootdk.engines.entries import SOURCES
from rootdk.engines.fill import Filled, fill
from rootdk.engines.fusedkernels import Attended, SomeRows, attend, kernel_for
from rootdk.engines.kernels import kernels_of
from rootdk.engines.softmax_rows import SoftmaxRows
from rootdk.stats.block import Floats

MEASURED = ("counts", "row_entropy", "row_logsumexp", "row_squares")
"""The statistics of scores that the kernels give."""

LARGEST = frozenset({"extremes", "row_maximum"})
"""The statistics of largest scores: where no kernel gives them, they come from blocks."""

LARGEST_MASK = 2**24
"""Scores up to which what is hidden is spelt out for a kernel."""

ABSOLUTE, RELATIVE = 0.01, 0.01
"""An entropy may be off by so many nats, and by such a part of itself."""


def refusal(call: Call, names: set[str]) -> str | None:
    """Return why the engine cannot measure this; None if it can."""
    others = names - set(MEASURED) - set(SOURCES) - LARGEST
    if not names & set(MEASURED) - {"counts"}:
        # From blocks alone, largest scores would have nothing to do with a fused kernel.
        others |= names & LARGEST - _given_by_flex(call, names)
    if others:
        return f"{', '.join(sorted(others))} cannot be had from a fused kernel"
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
    reduced = reduced_precision(call)
    if reduced is not None:
        return reduced
    dtypes = _dtypes(call)
    if kernel_for(call.query.device.type, dtypes[-1], is_masked(call)) is None:
        return f"no kernel for {call.query.device.type} and {dtypes[-1]} returns what is expected"
    size, _ = _centred(call).largest
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
    largest = _given_by_flex(call, names)
    found = _with_flex(call, names) if largest else None
    if found is None:
        largest, found = set(), _with_own(call, names)
    block, engine = found
    beside = (names & LARGEST) - largest
    filled = fill([block], names - beside, engine, call.num_heads)
    return filled.beside(blocked.run(call, beside)) if beside else filled


def _given_by_flex(call: Call, names: set[str]) -> set[str]:
    """Return the statistics of the largest score that flex_attention may give."""
    if not flexkernel.is_available(call):
        return set()
    # Extremes are of scores that have nothing added.
    return names & LARGEST - (set() if call.bias is None else {"extremes"})


def _with_flex(call: Call, names: set[str]) -> tuple[SoftmaxRows, str] | None:
    """Return the rows of a call and what ran; None if flex_attention cannot be had after all."""
    dtype = flexkernel.dtype_of(call)
    try:
        block = _measure(call, names, dtype, partial(flexkernel.attend, call), must=True)
    except UnfitError:
        flexkernel.distrust(call)
        return None
    return None if block is None else (block, _described(dtype, flexkernel.NAME))


def _with_own(call: Call, names: set[str]) -> tuple[SoftmaxRows, str]:
    """Return the rows of a call, by torch's own kernels, and what ran."""
    *before, last = _dtypes(call)
    for dtype in (*before, last):
        kernel = kernel_for(call.query.device.type, dtype, is_masked(call))
        if kernel is None:
            continue
        block = _measure(call, names, dtype, partial(attend, kernel), must=dtype == last)
        if block is not None:
            return block, _described(dtype, kernel.removeprefix("_scaled_dot_product_"))
    raise UnfitError(f"no kernel for {last} returns what is expected")


def _described(dtype: str, kernel: str) -> str:
    return f"fused (torch, {dtype}, {kernel})"


def _measure(
    call: Call, names: set[str], dtype: str, attend: Callable[..., Attended], *, must: bool
) -> SoftmaxRows | None:
    """Return the rows of a call; None if they need not be, and are not accurate enough."""
    asked = _Asked.of(call, dtype, attend)
    found = asked.attend()
    size = None if must else asked.size(found.output)
    entropy = _rows(found.logsumexp - asked.expectation(found.output))
    if size is not None:
        error = float_info(dtype).eps * _rows(size)
        if np.any(error > ABSOLUTE + RELATIVE * entropy):
            return None
    visible = asked.added.visible
    squares = normaliser = heaviest = extremes = None
    if "row_squares" in names:
        doubled = asked.attend(times=2.0).logsumexp
        squares = np.minimum(_rows(doubled - 2.0 * found.logsumexp), 0.0)
    if "row_logsumexp" in names:
        normaliser = _rows(found.logsumexp) + asked.offset()
    if found.largest is not None:
        heaviest = np.minimum(_rows(found.largest - found.logsumexp), 0.0)
    if found.largest is not None and "extremes" in names:
        # The least score is the greatest of the other sign.
        other, offset = asked.attend(times=-1.0).largest, asked.offset()
        least = np.where(visible > 0, offset - _rows(other), np.inf)
        extremes = least, np.where(visible > 0, offset + _rows(found.largest), -np.inf)
    return SoftmaxRows(
        visible_keys=visible,
        entropy=np.clip(entropy, 0.0, np.log(np.maximum(visible, 1))),
        logsumexp=normaliser,
        log_sum_squares=squares,
        log_max_weight=heaviest,
        extremes=extremes,
    )


@dataclass(eq=False, kw_only=True)
class _Asked:
    """A call as a kernel is asked it.

    Attributes
    ----------
    call : Call
        The call.
    kernel : callable
        Takes query, key, value, bias, ``causal`` and ``scale``.
    given : tensor
        The rows of the query, as they were given.
    query, key, value : tensor, shape (batch, num_heads, rows or keys, head_dim)
        In the dtype to compute in; keys less their mean.
    added : Added
        What is added to the scores.
    """

    call: Call
    kernel: Callable[..., Attended]
    given: Any
    query: Any
    key: Any
    value: Any
    added: Added

    @classmethod
    def of(cls, call: Call, dtype: str, kernel: Callable[..., Attended]) -> _Asked:
        """Return a call as a kernel is asked it in a dtype."""
        import torch

        given = kernels_of(call.query).select(call.query, call.rows, 2)
        query = given.to(getattr(torch, dtype))
        key = _per_head(call, _centred(call).key.to(query.dtype))
        added = Added.of(call, query)
        value = key
        if added.of_key is not None:
            # Kernels want all three of one width; a zero changes no score.
            value = torch.cat([key, added.of_key], dim=-1)
            query, key = (torch.nn.functional.pad(each, (0, 1)) for each in (query, key))
        return cls(
            call=call, kernel=kernel, given=given, query=query, key=key, value=value, added=added
        )

    def attend(self, *, times: float = 1.0) -> Attended:
        """Return what the kernel does with all that is visible so many times as large.

        A negative number of times leaves what is added as it is.
        """
        bias, scale = self.added.times(max(times, 1.0)), times * self.call.scale
        arguments = (self.query, self.key, self.value, bias)
        found = self.kernel(*arguments, causal=self._in_order, scale=scale)
        self._some_rows.check(found, times=times)
        return found

    @property
    def _in_order(self) -> bool:
        return self.call.causal is not None and not self.added.spells_out_order

    @cached_property
    def _some_rows(self) -> SomeRows:
        return SomeRows(
            self.query,
            self.key,
            self.value,
            self.added.times(1.0),
            causal=self._in_order,
            scale=self.call.scale,
            largest=_centred(self.call).largest,
        )

    def expectation(self, output: Any) -> Any:
        """Return the expected score of each row; the output is lost."""
        query, mean = self._narrow(output)
        expected = self.call.scale * mean.mul_(query).sum(-1)
        if self.added.of_key is not None:
            expected = expected + output[..., -1].to(expected.dtype)
        return expected

    def size(self, output: Any) -> Any:
        """Return how large what the expected scores are summed from may be."""
        import torch

        query, mean = (torch.linalg.vector_norm(each, dim=-1) for each in self._narrow(output))
        return abs(self.call.scale) * query * mean

    def _narrow(self, output: Any) -> tuple[Any, Any]:
        import torch

        wide = torch.float64 if self.query.dtype == torch.float64 else torch.float32
        query, mean = (each[..., : self.call.head_dim].to(wide) for each in (self.query, output))
        return query, mean

    def offset(self) -> Floats:
        """Return what the mean of the keys adds to the scores of each row."""
        import torch

        column = _per_head(self.call, _centred(self.call).centre).unsqueeze(-1)
        product = torch.matmul(self.given.to(torch.float64), column).squeeze(-1)
        return self.call.scale * _rows(product)


def _per_head(call: Call, of_kv_heads: Any) -> Any:
    if call.queries_per_kv_head == 1:
        return of_kv_heads
    return of_kv_heads.repeat_interleave(call.queries_per_kv_head, dim=1)


class _Centred(NamedTuple):
    """Keys less about their mean.

    Attributes
    ----------
    key : tensor, shape (batch, num_kv_heads, keys, head_dim)
        What is left.
    centre : tensor of float64, shape (batch, num_kv_heads, head_dim)
        What was taken off.
    largest : tuple of two float
        What scores of the first, and its entries and biases, are at most.
    """

    key: Any
    centre: Any
    largest: tuple[float, float]


_centred_keys: WeakKeyDictionary[Call, _Centred] = WeakKeyDictionary()
"""Of calls that were asked about, and may yet be run."""


def _centred(call: Call) -> _Centred:
    import torch

    if call not in _centred_keys:
        wide = torch.float64 if float_info(call.key).bits > 32 else torch.float32
        # In no wider arithmetic than the keys: any centre serves that is used throughout.
        centre = call.key.mean(dim=2, dtype=wide)
        key = call.key.to(wide) - centre[:, :, None]
        norm, bias = _largest_norm(key), 0.0
        if call.bias is not None:
            bias = float(call.bias.where(call.bias > -torch.inf, 0.0).abs().amax())
        largest = abs(call.scale) * _largest_norm(call.query) * norm + bias, max(norm, bias)
        _centred_keys[call] = _Centred(key, centre.to(torch.float64), largest)
    return _centred_keys[call]


def _largest_norm(array: Any) -> float:
    import torch

    wide = torch.float64 if float_info(array).bits > 32 else torch.float32
    return float(torch.linalg.vector_norm(array, dim=-1, dtype=wide).amax())


def _rows(of_batch: Any) -> Floats:
    """Return (batch, num_heads, queries) numbers as float64 (num_heads, batch · queries)."""
    values = to_numpy(of_batch).astype(np.float64)
    return np.moveaxis(values, 0, 1).reshape(values.shape[1], -1)
