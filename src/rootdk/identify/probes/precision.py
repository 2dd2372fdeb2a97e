"""What each dtype does: errors over growing scores, where large ones break, and in which dtype."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from rootdk._lib.arrays import float_info, quiet
from rootdk.identify.bench import Bench
from rootdk.identify.probes._base import Probe
from rootdk.identify.subject import Floats, Refused

__all__ = ["Precision"]

Shape = Literal["level", "uneven", "peaked"]
"""How the scores of a call lie: a row all at one height, rows at several, or one key above."""

_SIZES = (1.0, 4.0, 16.0, 64.0)
_SHIFTS = (8.0, 12.0, 16.0, 32.0, 64.0, 96.0, 128.0, 256.0, 512.0, 750.0, 1024.0, 2048.0, 8192.0)
_PRODUCTS = tuple(2.0**n for n in range(12, 20))


class Precision(Probe):
    """Against the model in float64, on the inputs that the dtype left."""

    name = "precision"
    order = 75
    fills = (
        "precision.error",
        "precision.bound",
        "precision.errors",
        "precision.shift_breaks_at",
        "precision.shift_outcome",
        "precision.shift_reached",
        "precision.shift_uneven",
        "precision.shift_peaked",
        "precision.product_breaks_at",
        "precision.product_outcome",
        "precision.product_reached",
        "precision.softmax_dtype",
        "precision.softmax_error",
        "precision.output_dtype",
    )

    def run(self, bench: Bench) -> None:
        """Measure every dtype that the framework computes in natively."""
        model = bench.need_model()
        del model
        subject = bench.subject
        named = subject.adapted.dtypes or subject.library.dtypes
        dtypes = [bench.dtype_asked] if bench.dtype_asked else list(named)
        for dtype in dtypes:
            facts: dict[str, Any] = bench.notebook.precision.get(dtype, {"dtype": dtype})
            try:
                self._errors(bench, dtype, facts)
                self._sum(bench, dtype, facts)
                if _has_shifts(bench):
                    self._shifts(bench, dtype, facts)
                    self._products(bench, dtype, facts)
            except Refused as refusal:
                bench.refused(self.name, f"{dtype} inputs", refusal)
                if len(facts) == 1:
                    continue
            bench.notebook.precision[dtype] = facts

    def _errors(self, bench: Bench, dtype: str, facts: dict[str, Any]) -> None:
        model, sizes, info = bench.need_model(), bench.sizes, float_info(dtype)
        scale = abs(bench.notebook.get("scale.value") or 1.0)
        base_query, base_key = bench.query_key(sizes)
        values = bench.subject.rounded(
            np.clip(bench.rng.standard_normal((*base_key.shape[:3], sizes.value_dim)), -1.0, 1.0),
            dtype,
        )
        errors = []
        for size in _SIZES:
            amplitude = size / (3.0 * scale * np.sqrt(sizes.head_dim))
            if bench.normalises:
                amplitude = 1.0
            query = bench.subject.rounded(amplitude * base_query, dtype)
            key = bench.subject.rounded(base_key, dtype)
            seen = bench.subject.output(query, key, values, dtype=dtype)
            said = model.output(query, key, values)
            scores = scale * np.abs(query @ key.swapaxes(-1, -2))
            error = float(np.max(np.abs(seen - said)))
            errors.append((float(scores.max()), error if np.isfinite(error) else np.inf))
            if size == 1.0:
                facts["output_dtype"] = bench.subject.output_dtype
            if bench.normalises:
                break
        facts["errors"] = tuple(errors)
        facts["error"] = errors[0][1]
        facts["bound"] = 4.0 * info.eps + 64.0 * 2.0**-23

    def _sum(self, bench: Bench, dtype: str, facts: dict[str, Any]) -> None:
        """Sum more equal terms than a half dtype can count to: a sum in it stops short."""
        info = float_info(dtype)
        if info.bits != 16 or not _has_shifts(bench):
            return
        keys = int(2.2 / info.eps) + 13
        sizes = bench.with_sizes(keys=keys)
        if bench.sizes.queries == bench.sizes.keys:
            sizes = bench.with_sizes(keys=keys, queries=keys)
        query = np.zeros((1, sizes.heads, sizes.queries, sizes.head_dim))
        key = np.zeros((1, sizes.kv_heads, keys, sizes.head_dim))
        value = np.ones((1, sizes.kv_heads, keys, bench.sizes.value_dim))
        try:
            seen = bench.subject.output(query, key, value, dtype=dtype)
        except Refused as refusal:
            bench.refused(self.name, f"{keys} keys in {dtype}", refusal)
            return
        right = bench.need_model().output(query, key, value)
        error = float(np.max(np.abs(seen / right - 1.0)))
        facts["softmax_error"] = error
        facts["softmax_dtype"] = dtype if not error <= 8.0 * info.eps else "float32"

    def _shifts(self, bench: Bench, dtype: str, facts: dict[str, Any]) -> None:
        """Raise and lower whole rows: a softmax that subtracts the maximum does not notice."""
        scale, info = bench.notebook.get("scale.value"), float_info(dtype)
        # What a product of this dtype may lose of a score, and its float32 softmax with it.
        for shift in _SHIFTS:
            if abs(shift / scale) > info.max / 64.0:
                break
            outcome = self._at(bench, dtype, shift) or self._at(bench, dtype, -shift)
            shape: Shape = "level"
            for other in ("uneven", "peaked") if outcome is None else ():
                shape = other
                outcome = self._at(bench, dtype, shift, shape)
                if outcome is not None:
                    break
            if outcome is not None:
                facts["shift_breaks_at"], facts["shift_outcome"] = shift, outcome
                facts["shift_uneven"] = shape == "uneven"
                facts["shift_peaked"] = shape == "peaked"
                self._height_witness(bench, f"precision.{dtype}.shift", dtype, shift, shape)
                return
            facts["shift_reached"] = shift

    def _products(self, bench: Bench, dtype: str, facts: dict[str, Any]) -> None:
        """Make q·k large while its scaled value stays what a softmax can do."""
        scale, info = bench.notebook.get("scale.value"), float_info(dtype)
        broken = facts.get("shift_breaks_at")
        for product in _PRODUCTS:
            if broken is not None and product * abs(scale) >= 0.99 * broken:
                break
            if np.sqrt(product) * 2.0 > info.max:
                break
            outcome = self._at(bench, dtype, product * abs(scale))
            if outcome is not None:
                facts["product_breaks_at"], facts["product_outcome"] = product, outcome
                self._product_witness(bench, dtype, product)
                return
            facts["product_reached"] = product

    def _at(self, bench: Bench, dtype: str, shift: float, shape: Shape = "level") -> str | None:
        """Return how a row at some height is wrong, None if it is right."""
        sizes = bench.sizes
        query, key = _raised(bench, dtype, shift, shape)
        rows = slice(0, 1) if shape == "level" else slice(None)
        value = np.zeros((sizes.batch, sizes.kv_heads, sizes.keys, sizes.value_dim))
        shown = min(sizes.keys, sizes.value_dim)
        value[..., :shown] = np.eye(sizes.keys)[:, :shown]
        seen = bench.subject.output(query, key, value, dtype=dtype)[0, 0, rows, :shown]
        with quiet():
            right = bench.need_model().weights(query, key, value_dim=sizes.value_dim)
        right = right[0, 0, rows, :shown]
        if np.isnan(seen).any():
            return "nan"
        if not np.isfinite(seen).all():
            return "inf"
        if float(np.max(np.abs(seen))) == 0.0 and float(np.max(np.abs(right))) > 0.1:
            return "zero"
        # Scores may have been rounded to the dtype before the softmax; that is no break.
        eps = max(float_info(dtype).eps, bench.eps if bench.inner_dtype else 0.0)
        slack = 0.02 + 4.0 * eps * (abs(shift) + 1.0)
        if float(np.max(np.abs(seen - right))) > slack:
            return "wrong"
        return None

    def _product_witness(self, bench: Bench, dtype: str, product: float) -> None:
        scale = abs(bench.notebook.get("scale.value"))
        self._height_witness(bench, f"precision.{dtype}.product", dtype, product * scale)

    def _height_witness(
        self, bench: Bench, fact: str, dtype: str, shift: float, shape: Shape = "level"
    ) -> None:
        sizes = bench.sizes
        query, key = _raised(bench, dtype, shift, shape)
        value = np.ones((sizes.batch, sizes.kv_heads, sizes.keys, sizes.value_dim))
        bench.witness(
            fact,
            f"{_SHAPES[shape].format(shift)} and every value is 1, in {dtype}: outputs are 1 "
            "in a softmax that subtracts the maximum",
            query,
            key,
            value,
            seen="output[0, 0, :, 0]",
            expected="1.0",
            dtype=dtype,
        )


def _has_shifts(bench: Bench) -> bool:
    """Whether scores can be raised and lowered as a whole, and stay comparable."""
    note = bench.notebook
    value = note.get("scale.value")
    return bool(
        value
        and not bench.normalises
        and not note.get("scale.varies")
        and note.get("softmax.axis") == "keys"
        and note.get("softmax.times", 1) == 1
    )


_SHAPES: dict[Shape, str] = {
    "level": "scaled scores lie near {:g}",
    "uneven": "scaled scores lie near {:g} in some rows and elsewhere in others",
    "peaked": "the scaled score of one key of each row is {:g} and the others are 0",
}


def _raised(bench: Bench, dtype: str, shift: float, shape: Shape) -> tuple[Floats, Floats]:
    """Return query and key whose scaled scores are ``shift`` plus small steps.

    ``uneven``: other rows lie at other heights. ``peaked``: one key of a row lies there, in
    turn from the last key to the first, and the others at 0.
    """
    sizes, scale = bench.sizes, bench.notebook.get("scale.value")
    steps = np.where(np.arange(sizes.keys) % 2, 0.5, 0.0)
    product = abs(shift / scale)
    # Powers of two on both sides, so that no dtype rounds them.
    side = 2.0 ** np.floor(np.log2(max(np.sqrt(product), 1e-30)) + 0.5)
    query = np.zeros((sizes.batch, sizes.heads, sizes.queries, sizes.head_dim))
    key = np.zeros((sizes.batch, sizes.kv_heads, sizes.keys, sizes.head_dim))
    if shape == "peaked":
        peaks = min(sizes.queries, sizes.keys, sizes.head_dim)
        at = np.linspace(sizes.keys - 1, 0, peaks).round().astype(int)
        rows = np.arange(sizes.queries)
        query[:, :, rows, rows % peaks] = shift / scale / side
        key[:, :, at, np.arange(peaks)] = side
        return bench.subject.rounded(query, dtype), bench.subject.rounded(key, dtype)
    query[..., 0], key[..., 0] = shift / scale / side, side
    query[..., 1], key[..., 1] = 1.0 / scale, steps
    if shape == "uneven":
        query[:, :, 1::3, 0] = 0.0
        query[:, :, 2::3, 0] *= -1.0
        query[1::2, :, :, 0] *= -1.0
    return bench.subject.rounded(query, dtype), bench.subject.rounded(key, dtype)
