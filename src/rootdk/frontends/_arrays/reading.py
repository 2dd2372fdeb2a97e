"""Read one attention call from a store, and check its arrays against each other."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from rootdk._lib.arrays import float_info
from rootdk._lib.errors import RootdkError, TargetError
from rootdk.attention.arguments import bind_shapes, check_softcap
from rootdk.attention.masks import Causal, Window, check_causal, check_window
from rootdk.frontends._arrays.call import Kept, SavedCall
from rootdk.frontends._arrays.layout import four_dimensions, scores_like
from rootdk.frontends._arrays.naming import Group
from rootdk.frontends._arrays.store import MANY_BYTES, Store

__all__ = ["read_call"]

Array = npt.NDArray[Any]
_WHOLE_TYPES = "iu"
_MASK_BELOW = -9e3
_TWO_VALUED_BELOW = -40.0


def read_call(store: Store, group: Group, layout: str) -> SavedCall:
    """Return a site's arrays in one form.

    Raises
    ------
    TargetError
        If an array is not what its name says, or the shapes do not fit each other. The
        message names the store, the site and the array.
    """
    reader = _Reader(store, group)
    try:
        return reader.call(reader.word("layout") or layout)
    except RootdkError as error:
        if isinstance(error, TargetError):
            raise
        raise TargetError(f"{store.name}: {group.site}: {error}") from None


class _Reader:
    """Reads the fields of one site."""

    def __init__(self, store: Store, group: Group) -> None:
        self.store = store
        self.group = group
        self._refuse_the_whole()

    def call(self, layout: str) -> SavedCall:
        heads = self.whole("num_heads")
        shared = self.whole("num_kv_heads") or heads
        query = self.operand("query", layout, heads)
        key = self.operand("key", layout, shared)
        value = self.operand("value", layout, shared)
        assert query is not None
        assert key is not None
        query, key, value = _one_dtype(query, key, value)
        mask, bias, masked_by = self.hiding(query)
        causal, window = self.causal(query, key), self.window()
        bind_shapes(query, key, value, mask=mask, bias=bias)
        return SavedCall(
            site=self.group.site,
            query=query,
            key=key,
            value=value,
            mask=mask,
            bias=bias,
            inputs=self.floats("inputs"),
            scale=self.number("scale"),
            softcap=self.softcap(),
            causal=causal,
            window=window,
            kept=self.kept(query, key, layout, heads),
            score_dtype=self.score_dtype(query),
            masked_by=masked_by,
            layout=layout,
            hidden=self.whole("hidden"),
            layer=self.whole("layer"),
        )

    # -- words and numbers

    def word(self, field: str) -> str | None:
        name = self.group.fields.get(field)
        if name is None:
            return None
        text = self.store.text(name)
        if text is None:
            raise TargetError(f"{self.store.name}: {name} is no text; expected a word")
        return text.strip()

    def number(self, field: str) -> float | None:
        name = self.group.fields.get(field)
        if name is None:
            return None
        values = self._numbers(name)
        if values.size != 1:
            raise TargetError(
                f"{self.store.name}: {name} has the shape {values.shape}; expected one number"
            )
        return float(values.reshape(-1)[0])

    def whole(self, field: str) -> int | None:
        value = self.number(field)
        if value is None:
            return None
        least = 0 if field == "layer" else 1
        if not math.isfinite(value) or value != int(value) or value < least:
            raise TargetError.unexpected(
                f"{self.store.name}: {self.group.fields[field]}", value,
                f"a whole number from {least} up",
            )  # fmt: skip
        return int(value)

    def _numbers(self, name: str) -> Array:
        text = self.store.words.get(name)
        if text is None:
            entry = self.store.entry(name)
            if math.prod(entry.shape) > 2:
                return np.empty(entry.shape)
            return self.store.read(name).astype(np.float64)
        try:
            return np.asarray([float(word) for word in text.split()])
        except ValueError:
            raise TargetError.unexpected(f"{self.store.name}: {name}", text, "a number") from None

    def softcap(self) -> float | None:
        """ONNX and flash-attn write 0 for no cap."""
        return check_softcap(self.number("softcap") or None)

    def window(self) -> Window | None:
        name = self.group.fields.get("window")
        if name is None:
            return None
        ends = self._numbers(name)
        whole = np.all(np.isfinite(ends)) and np.all(ends == np.round(ends))
        if ends.size != 2 or not whole or np.any(ends < -1):
            raise TargetError(
                f"{self.store.name}: {name} is {ends.tolist()}; expected two whole numbers, "
                "keys before and after the diagonal, −1 for open"
            )
        left, right = (None if end < 0 else int(end) for end in ends.reshape(-1).tolist())
        return check_window((left, right))

    def causal(self, query: Array, key: Array) -> Causal | None:
        name = self.group.fields.get("causal")
        if name is None:
            return None
        word = self.store.text(name)
        if word is None:
            word = str(bool(self.number("causal"))).lower()
        word = {"true": "true", "1": "true", "false": "none", "0": "none"}.get(
            word.strip().lower(), word.strip()
        )
        if word == "none":
            return None
        if word == "true" and query.shape[2] == key.shape[2]:
            return "top_left"
        if word == "true":
            raise TargetError(
                f"{self.store.name}: {name} is true, with {query.shape[2]} queries and "
                f"{key.shape[2]} keys; expected top_left or bottom_right"
            )
        return check_causal(word)

    def score_dtype(self, query: Array) -> str:
        return float_info(self.word("score_dtype") or self._dtype("query") or query).name

    def _dtype(self, field: str) -> str | None:
        name = self.group.fields.get(field)
        dtype = self.store.entry(name).dtype if name is not None else None
        return dtype if dtype in {"bfloat16", "float16", "float32", "float64"} else None

    # -- arrays

    def floats(self, field: str) -> Array | None:
        name = self.group.fields.get(field)
        if name is None:
            return None
        array = self.store.read(name)
        if array.dtype.kind != "f" or array.dtype.itemsize > 8:
            raise TargetError(
                f"{self.store.name}: {name} has dtype {array.dtype}; "
                "expected float16, bfloat16, float32 or float64"
            )
        return array

    def operand(self, field: str, layout: str, heads: int | None) -> Array | None:
        array = self.floats(field)
        if array is None:
            return None
        return four_dimensions(array, layout, heads, self.group.fields[field])

    def hiding(
        self, query: Array
    ) -> tuple[Array | None, Array | None, tuple[tuple[str, float], ...]]:
        """The mask, the bias without what hides keys in it, and how keys are hidden."""
        mask, how = None, []
        name = self.group.fields.get("mask")
        if name is not None:
            mask = self._mask(name)
            how.append(("mask", -math.inf))
        bias = self.floats("bias")
        if bias is None:
            return mask, None, tuple(how)
        bias = scores_like(bias, self.group.fields["bias"]).astype(query.dtype)
        low = float(np.min(bias, initial=0.0))
        if low <= _MASK_BELOW or _two_valued(bias, low):
            hidden = bias <= max(low, _MASK_BELOW)
            shown = ~hidden
            mask = shown if mask is None else np.logical_and(mask, shown)
            how.append(("bias", low))
            bias = np.where(hidden, np.zeros_like(bias), bias)
            if not bool(np.any(bias != 0)):
                bias = None
        if bias is not None:
            how.append(("position", 0.0))
        return mask, bias, tuple(how)

    def _mask(self, name: str) -> Array:
        mask = self.store.read(name)
        if mask.dtype.kind in _WHOLE_TYPES and bool(np.all((mask == 0) | (mask == 1))):
            mask = mask.astype(bool)
        if mask.dtype != bool:
            raise TargetError(
                f"{self.store.name}: {name} has dtype {mask.dtype}; expected truth values (or 0 "
                "and 1), true where a query may attend; what is added to scores is a bias"
            )
        return scores_like(mask, name)

    def kept(self, query: Array, key: Array, layout: str, heads: int | None) -> Kept | None:
        kinds: tuple[Literal["weights", "scores", "output"], ...] = ("weights", "scores", "output")
        for kind in kinds:
            name = self.group.fields.get(kind)
            if name is None:
                continue
            array = self.floats(kind)
            assert array is not None
            if kind == "output":
                array = four_dimensions(array, layout, heads, name)
            else:
                array = scores_like(array, name)
            rows = self._rows(array.shape[2], query.shape[2], name)
            self._fits(array, kind, query, key, name)
            precision = self._dtype(kind) or "float32"
            return Kept(kind=kind, array=array, rows=rows, precision=precision)
        return None

    def _rows(self, count: int, queries: int, name: str) -> npt.NDArray[np.int64]:
        where = self.group.fields.get("rows")
        if where is None:
            if count != queries:
                raise TargetError(
                    f"{self.store.name}: {name} has {count} rows and there are {queries} "
                    f"queries; expected as many, or {self.group.site}.rows to say which"
                )
            return np.arange(queries)
        rows = self.store.read(where)
        if rows.dtype.kind not in _WHOLE_TYPES or rows.shape != (count,):
            raise TargetError(
                f"{self.store.name}: {where} has the shape {rows.shape} and dtype {rows.dtype}; "
                f"expected {count} whole numbers, the rows of {name}"
            )
        rows = rows.astype(np.int64)
        if rows.size and not (rows.min() >= 0 and rows.max() < queries):
            raise TargetError(
                f"{self.store.name}: {where} runs from {rows.min()} to {rows.max()}; "
                f"expected positions among {queries} queries"
            )
        return rows

    def _fits(self, array: Array, kind: str, query: Array, key: Array, name: str) -> None:
        last = key.shape[2] if kind != "output" else array.shape[3]
        wanted = (query.shape[0], query.shape[1], array.shape[2], last)
        if array.shape != wanted:
            raise TargetError(
                f"{self.store.name}: {name} is (batch, heads, rows, …) = {array.shape}; "
                f"expected {wanted}, as query and key have it"
            )

    def _refuse_the_whole(self) -> None:
        fields = {f: n for f, n in self.group.fields.items() if n in self.store.names()}
        total = sum(self.store.entry(name).bytes for name in fields.values())
        if total > MANY_BYTES:
            raise TargetError(
                f"{self.store.name}: the arrays of {self.group.site} take {total} bytes; "
                f"expected at most {MANY_BYTES}, half of the memory there is"
            )


def _one_dtype(query: Array, key: Array, value: Array | None) -> tuple[Array, Array, Array | None]:
    dtype = np.result_type(*[a.dtype for a in (query, key, value) if a is not None])
    query, key = query.astype(dtype, copy=False), key.astype(dtype, copy=False)
    return query, key, None if value is None else value.astype(dtype, copy=False)


def _two_valued(bias: Array, low: float) -> bool:
    """0 and one number far below it: a mask in the words of a bias."""
    return low < _TWO_VALUED_BELOW and bool(np.all((bias == 0) | (bias == low)))
