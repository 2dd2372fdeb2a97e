"""The function under examination: canonical NumPy arrays in, a canonical NumPy array out."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rootdk._lib.arrays import quiet
from rootdk._lib.layouts import CANONICAL, Layout
from rootdk.identify._limit import OutOfTime, within
from rootdk.identify.adapted import Adapted
from rootdk.identify.libraries import Library
from rootdk.identify.vocabulary import Word
from rootdk.records import Sizes

__all__ = ["Bools", "Floats", "Refused", "Subject"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

SCORES = ("batch", "heads", "queries", "keys")
"""The axes of scores. A shape of a mask names those that are not 1, with a minus for one that
is not there."""

FIRST_CALL_SECONDS = 60.0
"""A first call may compile."""
_MOST_HANGS = 3
_LONGEST_ERROR = 200


class Refused(Exception):
    """A call that gave no usable output: what the function said, in one line."""

    def __init__(self, kind: str, error: str, *, same_shapes_worked: bool = False) -> None:
        super().__init__(error)
        self.kind = kind
        self.error = error
        self.same_shapes_worked = same_shapes_worked


class Subject:
    """Calls the function. ``output`` is the only way to it.

    Parameters
    ----------
    adapted : Adapted
        The function.
    library : Library
        Whose arrays it is given.
    dtype : str
        Their dtype, unless a call says otherwise.
    device : str, optional
        Their device.
    seconds : float
        The time limit of a call.
    """

    def __init__(
        self,
        adapted: Adapted,
        library: Library,
        *,
        dtype: str = "float32",
        device: str | None = None,
        seconds: float = 10.0,
    ) -> None:
        self.adapted = adapted
        self.library = library
        self.dtype = dtype
        self.device = device
        self.seconds = seconds
        self.calls = 0
        self.hangs = 0
        self.changed: list[str] = []
        self.same_width = adapted.same_width
        self.output_layout: Layout | None = adapted.output_layout
        self.output_dtype: str | None = None
        self.extra: dict[str, Any] = {}
        self.shapes: dict[str, tuple[str, ...]] = {}
        self._worked: set[object] = set()

    def use(self, library: Library) -> None:
        """Give the function another library's arrays from now on."""
        self.library = library

    def forget_layout(self) -> None:
        """Find out anew how the output is laid out."""
        self.output_layout = self.adapted.output_layout

    @property
    def layout(self) -> Layout:
        """The layout of query, key and value."""
        return self.adapted.layout

    def takes(self, meaning: str) -> bool:
        """Whether there is an argument of this meaning."""
        return meaning in self.adapted.words

    def own_name(self, meaning: str) -> str | None:
        """Return the function's own name of a meaning."""
        word = self.adapted.words.get(meaning)
        return word.own if word is not None else None

    def rounded(self, values: Floats, dtype: str | None = None) -> Floats:
        """Return what the function sees of some float64 values."""
        return self.library.rounded(values, dtype or self.dtype)

    def output(
        self,
        query: Floats,
        key: Floats,
        value: Floats,
        *,
        dtype: str | None = None,
        strided: bool = False,
        **asked: Any,
    ) -> Floats:
        """Return the output ``(batch, heads, queries, value_dim)``.

        ``asked`` are canonical values by meaning.

        Raises
        ------
        Refused
            If the call raises, does not return in time, or returns no array of the right shape.
        """
        own = self.arguments(query, key, asked)
        signature = (_signature(query, key, value, own, dtype or self.dtype), strided)
        arrays: list[Any] = []

        def call() -> Any:
            arrays[:] = self._operands((query, key, value), dtype)
            if strided:
                arrays[:] = [self.library.strided(array) for array in arrays]
            return self.adapted.call(arrays[0], arrays[1], arrays[2], self._made(own, dtype))

        result = self._guarded(call, signature)
        shape = (*query.shape[:3], value.shape[3])
        found = self._found(result, shape, signature)
        if signature not in self._worked:
            self._compare_inputs(arrays, self._operands((query, key, value), dtype))
        self._worked.add(signature)
        return found

    def _compare_inputs(self, after: list[Any], before: list[Any]) -> None:
        """Remember which operands a call left changed."""
        for name, one, other in zip(("query", "key", "value"), after, before, strict=True):
            seen, given = self.library.to_numpy(one), self.library.to_numpy(other)
            if name not in self.changed and not np.array_equal(seen, given, equal_nan=True):
                self.changed.append(name)

    def gradients(
        self, query: Floats, key: Floats, value: Floats, cotangent: Floats, **asked: Any
    ) -> list[Floats]:
        """Return d⟨output, cotangent⟩/d(query, key, value), each canonical.

        Raises
        ------
        Refused
            As for :meth:`output`.
        """
        own = self.arguments(query, key, asked)
        out = self.output_layout or self.layout
        along = out.from_canonical(cotangent)
        made = self._made(own, None)

        def call() -> list[Any]:
            operands = self._operands((query, key, value), None)
            return self.library.gradients(
                lambda given: self._array_of(
                    self.adapted.call(given[0], given[1], given[2], made), along.shape
                ),
                operands,
                along,
            )

        signature = ("gradients", query.shape, key.shape, value.shape)
        found = self._guarded(call, signature, may_compile=True)
        heads = (query.shape[1], key.shape[1], value.shape[1])
        return [
            self.layout.to_canonical(np.asarray(g), heads=h).astype(np.float64)
            for g, h in zip(found, heads, strict=True)
        ]

    def arguments(self, query: Floats, key: Floats, asked: dict[str, Any]) -> dict[str, Any]:
        """Return the function's own arguments, arrays still NumPy's."""
        sizes = {
            "num_heads": query.shape[1],
            "num_kv_heads": key.shape[1],
            "head_dim": query.shape[3],
            "hidden": query.shape[1] * query.shape[3],
        }
        own: dict[str, Any] = dict(self.extra)
        for name, value in self.adapted.base.items():
            own[name] = (
                self._neutral(value, query, key, sizes) if isinstance(value, Word) else value
            )
        for meaning, value in asked.items():
            own.update(self._own(meaning, value, query, key))
        return own

    def _own(self, meaning: str, value: Any, query: Floats, key: Floats) -> dict[str, Any]:
        if self.adapted.convert is not None:
            shape = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
            converted = self.adapted.convert(meaning, value, shape)
            if converted is not None:
                return converted
        word = self.adapted.words[meaning]
        if meaning in ("mask", "bias"):
            value = self._shaped(meaning, value, query, key)
        return {word.own: _in_form(word, value)}

    def _shaped(self, meaning: str, value: Any, query: Floats, key: Floats) -> Any:
        """Return what broadcasts to the scores, in the shape that the function was seen to take."""
        shape = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
        form = self.shapes.get(meaning)
        if form is None:
            return self.layout.scores(value)
        kept = tuple(n if word in form else 1 for word, n in zip(SCORES, shape, strict=True))
        for axis, (have, keep) in enumerate(zip(value.shape, kept, strict=True)):
            if have > 1 and keep == 1:
                value = value.take([0], axis)
        whole = np.broadcast_to(value, kept)
        gone = tuple(i for i, word in enumerate(SCORES) if f"-{word}" in form)
        return np.array(whole.reshape([n for i, n in enumerate(kept) if i not in gone]))

    def _neutral(self, word: Word, query: Floats, key: Floats, sizes: dict[str, int]) -> Any:
        if word.meaning in sizes:
            return sizes[word.meaning]
        neutral = {
            "scale": 1.0 / math.sqrt(query.shape[3]),
            "causal": False,
            "training": False,
            "dropout": 0.0,
        }
        value = neutral.get(word.meaning)
        return _in_form(word, value) if value is not None else None

    def _operands(self, arrays: Sequence[Floats], dtype: str | None) -> list[Any]:
        return [
            self.library.array(
                self.layout.from_canonical(array), dtype=dtype or self.dtype, device=self.device
            )
            for array in arrays
        ]

    def _made(self, own: dict[str, Any], dtype: str | None) -> dict[str, Any]:
        return {
            name: self.library.array(value, dtype=dtype or self.dtype, device=self.device)
            if isinstance(value, np.ndarray)
            else value
            for name, value in own.items()
        }

    def _guarded(
        self, call: Callable[[], Any], signature: object, *, may_compile: bool = False
    ) -> Any:
        if self.hangs >= _MOST_HANGS:
            raise Refused("hung", f"not called: {self.hangs} calls before it did not return")
        first = may_compile or not self.calls
        limit = max(self.seconds, FIRST_CALL_SECONDS) if first else self.seconds
        self.calls += 1
        worked = signature in self._worked
        try:
            with warnings.catch_warnings(), quiet():
                warnings.simplefilter("ignore")
                return within(limit, call)
        except OutOfTime:
            self.hangs += 1
            raise Refused(
                "hung", f"no return within {limit:g} s", same_shapes_worked=worked
            ) from None
        except (Exception, SystemExit) as error:
            raise Refused("raised", first_line(error), same_shapes_worked=worked) from error

    def _array_of(self, result: Any, shape: Sequence[int]) -> Any:
        """Return the array of a result: itself, or the first of several that has the shape."""
        if isinstance(result, tuple | list):
            arrays = [one for one in result if hasattr(one, "shape")]
            fitting = [one for one in arrays if tuple(one.shape) == tuple(shape)]
            return (fitting or arrays or [None])[0]
        if isinstance(result, dict):
            return self._array_of(list(result.values()), shape)
        return result

    def _found(self, result: Any, shape: tuple[int, ...], signature: object) -> Floats:
        layout = self.output_layout or self.layout
        expected = layout.from_canonical(np.empty(shape)).shape if _fits(layout, shape) else shape
        array = self._array_of(result, expected)
        worked = signature in self._worked
        if not hasattr(array, "shape") or not hasattr(array, "dtype"):
            kind = type(array if array is not None else result).__name__
            raise Refused("not-an-array", f"it returned a {kind}", same_shapes_worked=worked)
        try:
            values = self.library.to_numpy(array)
        except (TypeError, ValueError, RuntimeError) as error:
            raise Refused("not-an-array", first_line(error)) from error
        if values.dtype.kind not in "fiub":
            raise Refused("not-an-array", f"it returned numbers of dtype {values.dtype}")
        self.output_dtype = str(getattr(array, "dtype", values.dtype)).rpartition(".")[2]
        if self.output_layout is None:
            self.output_layout = _matching(values.shape, shape, self.layout)
            layout = self.output_layout or layout
            expected = layout.from_canonical(np.empty(shape)).shape
        if values.shape != expected:
            raise Refused(
                "wrong-shape",
                f"it returned the shape {values.shape}; expected {tuple(expected)}",
                same_shapes_worked=worked,
            )
        return layout.to_canonical(values, heads=shape[1]).astype(np.float64)


def first_line(error: BaseException) -> str:
    """Return the class and the first line of an error's message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return text if len(text) <= _LONGEST_ERROR else text[: _LONGEST_ERROR - 1] + "…"


def _fits(layout: Layout, shape: tuple[int, ...]) -> bool:
    return all(layout.has(c) or n == 1 for c, n in zip(CANONICAL, shape, strict=True))


_OUTPUT_LAYOUTS = ("bhsd", "bshd", "sbhd", "bs(hd)", "sb(hd)", "hsd", "shd", "bsd", "sbd", "sd")


def _matching(seen: tuple[int, ...], shape: tuple[int, ...], asked: Layout) -> Layout | None:
    """Return the layout in which the shape is the one seen; that of the input is tried first."""
    from rootdk._lib.layouts import parse_layout

    for layout in (asked, *map(parse_layout, _OUTPUT_LAYOUTS)):
        if _fits(layout, shape) and layout.from_canonical(np.empty(shape)).shape == seen:
            return layout
    return None


def _in_form(word: Word, value: Any) -> Any:
    if word.form == "inverse":
        return 1.0 / value
    if word.form == "inverted":
        if not isinstance(value, np.ndarray):
            return not value
        return np.logical_not(value) if value.dtype == bool else value
    return value


def _signature(
    query: Floats, key: Floats, value: Floats, own: dict[str, Any], dtype: str
) -> object:
    shapes = tuple(
        (name, given.shape if isinstance(given, np.ndarray) else type(given).__name__)
        for name, given in sorted(own.items())
    )
    return (query.shape, key.shape, value.shape, shapes, dtype)


def sizes_of(query: Floats, key: Floats, value: Floats) -> Sizes:
    """Return the sizes of canonical arrays."""
    return Sizes(
        batch=query.shape[0],
        heads=query.shape[1],
        kv_heads=key.shape[1],
        queries=query.shape[2],
        keys=key.shape[2],
        head_dim=query.shape[3],
        value_dim=value.shape[3],
    )
