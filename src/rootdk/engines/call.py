"""One attention call to be measured: its arguments, checked once and brought to one form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from rootdk._lib.arrays import (
    Array,
    Namespace,
    float_info,
    is_array,
    is_torch,
    namespace,
    quiet,
    require_float,
    to_numpy,
)
from rootdk._lib.errors import ArgumentError
from rootdk.attention.arguments import bind_shapes, check_dtypes, check_softcap, resolve_scale
from rootdk.attention.masks import Causal, Window, check_causal, check_window, diagonal_shift
from rootdk.stats.block import Integers

ROW_SEED = 0x526F77
"""Seed of the sample of query rows: the same rows in every call of the same size."""


_BACKENDS = {"cpu": "mkldnn", "cuda": "cuda"}
"""Where torch keeps the settings of products, by type of device."""


class UnfitError(Exception):
    """An engine cannot measure a call, for a reason found on the way."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Call:
    """The arguments of one attention call, in four dimensions and outside any gradient.

    Attributes
    ----------
    query : array, shape (batch, num_heads, queries, head_dim)
        Torch if it came as torch, otherwise NumPy; so are the other arrays.
    key : array, shape (batch, num_kv_heads, keys, head_dim)
        Query head h uses key-value head h // queries_per_kv_head.
    value, inputs : array or None
        Only their entries are looked at.
    mask, bias : array of four dimensions, or None
        Each dimension that of the scores, or 1.
    scale, softcap, causal, window
        As for :func:`rootdk.attention.attention`, checked.
    segments : array of int64, or None
        Where packed sequences begin, and where the last ends.
    rows : array of int64
        The query rows to measure, ascending.
    score_dtype : str
        The dtype that headroom is about.
    """

    query: Array
    key: Array
    value: Array | None
    inputs: Array | None
    mask: Array | None
    bias: Array | None
    scale: float
    softcap: float | None
    causal: Causal | None
    window: Window
    segments: Integers | None
    rows: Integers
    score_dtype: str

    @property
    def xp(self) -> Namespace:
        """The array API namespace of the arrays."""
        return namespace(self.query)

    @property
    def library(self) -> str:
        """The library that the arrays belong to: "torch" or "numpy"."""
        return "torch" if is_torch(self.query) else "numpy"

    @property
    def batch(self) -> int:
        """Number of independent attentions in the call."""
        return int(self.query.shape[0])

    @property
    def num_heads(self) -> int:
        """Number of query heads."""
        return int(self.query.shape[1])

    @property
    def queries(self) -> int:
        """Number of queries, measured or not."""
        return int(self.query.shape[2])

    @property
    def keys(self) -> int:
        """Number of keys."""
        return int(self.key.shape[2])

    @property
    def scores(self) -> int:
        """Number of scores of all measured rows and all keys, hidden ones too."""
        return self.batch * self.num_heads * len(self.rows) * self.keys

    @property
    def head_dim(self) -> int:
        """Entries per query and head."""
        return int(self.query.shape[3])

    @property
    def queries_per_kv_head(self) -> int:
        """Number of query heads that share one key-value head."""
        return self.num_heads // int(self.key.shape[1]) if self.num_heads else 1

    def reach(self, rows: Integers) -> tuple[Integers, Integers]:
        """Return, per row, the first key within its reach, and the key past the last.

        Causal order, window and segments count; the mask and the bias may hide more.
        """
        left, right = self.window
        if self.causal is not None:
            right = 0
        diagonal = rows + diagonal_shift(self.queries, self.keys, self.causal)
        none = np.zeros_like(rows)
        first = none if left is None else np.clip(diagonal - left, 0, self.keys)
        past = none + self.keys if right is None else np.clip(diagonal + right + 1, 0, self.keys)
        if self.segments is not None:
            segment = np.searchsorted(self.segments, rows, side="right")
            first = np.maximum(first, self.segments[segment - 1])
            past = np.minimum(past, self.segments[segment])
        return first, np.maximum(first, past)

    @property
    def ordered(self) -> bool:
        """Whether causal order, a window or segments limit what a row sees."""
        return self.causal is not None or self.window != (None, None) or self.segments is not None


def prepare(
    query: Array,
    key: Array,
    value: Array | None,
    *,
    scale: float | None,
    mask: Array | None,
    bias: Array | None,
    causal: Causal | None,
    window: Window | None,
    softcap: float | None,
    segments: Sequence[int] | None,
    rows: int | None,
    inputs: Array | None,
    score_dtype: Any,
) -> Call:
    """Check the arguments of ``measure`` and return the call they describe."""
    check_dtypes(query, key, value, mask=mask, bias=bias)
    if inputs is not None:
        require_float("inputs", inputs)
    namespace(query, key, value, mask, bias, inputs)
    sizes = bind_shapes(query, key, value, mask=mask, bias=bias)
    return Call(
        query=_four_dimensions(query),
        key=_four_dimensions(key),
        value=_four_dimensions(value),
        inputs=_own(inputs),
        mask=_four_dimensions(mask),
        bias=_four_dimensions(bias),
        scale=resolve_scale(scale, sizes["head_dim"].size),
        softcap=check_softcap(softcap),
        causal=check_causal(causal),
        window=check_window(window),
        segments=_boundaries(segments, sizes["queries"].size, sizes["keys"].size),
        rows=_sample(sizes["queries"].size, rows),
        score_dtype=float_info(query if score_dtype is None else score_dtype).name,
    )


@contextmanager
def isolated(call: Call) -> Iterator[None]:
    """Compute as if nothing around the call had been switched on.

    No gradient is recorded, autocast is off, and NumPy warns of no infinity. All of it
    ends with the context, and belongs to this thread.
    """
    with quiet():
        if not is_torch(call.query):
            yield
            return
        import torch

        device_type = call.query.device.type
        with torch.no_grad():
            if not torch.is_autocast_enabled(device_type):
                yield
                return
            with torch.autocast(device_type, enabled=False):
                yield


def reduced_precision(call: Call) -> str | None:
    """Return what makes float32 products inexact on the call's device, if anything does.

    Someone who trades digits for speed in a model wants its measurements right all the same.
    """
    if not is_torch(call.query):
        return None
    import torch

    backend = getattr(torch.backends, _BACKENDS.get(call.query.device.type, ""), None)
    levels = (torch.backends, backend, getattr(backend, "matmul", None))
    try:
        settings = {getattr(level, "fp32_precision", "none") for level in levels}
        settings.add(torch.get_float32_matmul_precision())
    except RuntimeError:
        return "settings of float32 products that contradict each other"
    reduced = sorted(settings - {"none", "ieee", "highest"})
    return f"float32 products in {reduced[0]} precision" if reduced else None


def _four_dimensions(array: Array | None) -> Array | None:
    own = _own(array)
    return None if own is None else own[(None,) * (4 - own.ndim)]


def _own(array: Array | None) -> Array | None:
    """Return the array outside any gradient; as NumPy if its library has no engine."""
    if array is None:
        return None
    return array.detach() if is_torch(array) else to_numpy(array)


def _boundaries(segments: Sequence[int] | None, queries: int, keys: int) -> Integers | None:
    if segments is None:
        return None
    expected = f"ascending whole numbers from 0 to the number of queries and of keys, {queries}"
    if queries != keys:
        raise ArgumentError(
            f"segments were given for {queries} queries and {keys} keys; {expected}"
        )
    found = to_numpy(segments) if is_array(segments) else np.asarray(segments)
    whole = found.ndim == 1 and found.size > 0 and np.issubdtype(found.dtype, np.integer)
    if not whole or found[0] != 0 or found[-1] != queries or np.any(np.diff(found) < 0):
        raise ArgumentError.unexpected("segments", segments, expected)
    return np.unique(found).astype(np.int64)


def _sample(queries: int, rows: int | None) -> Integers:
    """Return all query rows, or a uniform sample of so many without repetition."""
    if rows is None:
        return np.arange(queries)
    if isinstance(rows, bool) or not hasattr(rows, "__index__") or int(rows) < 1:
        raise ArgumentError.unexpected("rows", rows, "a whole number from 1 up, or None for all")
    if int(rows) >= queries:
        return np.arange(queries)
    chosen = np.random.default_rng(ROW_SEED).choice(queries, size=int(rows), replace=False)
    return np.sort(chosen).astype(np.int64)
