"""What a query gets that may attend to no key."""

from __future__ import annotations

from typing import Any

import numpy as np

from rootdk.identify.bench import Bench
from rootdk.identify.masks import moderate
from rootdk.identify.probes._base import Probe
from rootdk.identify.subject import Floats, Refused

__all__ = ["EmptyRows", "classify_row"]

_ROW = 1


class EmptyRows(Probe):
    """One row without a visible key, by a boolean mask or by a bias of −inf."""

    name = "empty rows"
    order = 66
    fills = ("mask.empty_rows", "mask.forbidden_reach_empty")

    def run(self, bench: Bench) -> None:
        """Compare the row with zero, NaN, the mean of all values and the unmasked output."""
        note, sizes = bench.notebook, bench.sizes
        if sizes.queries < 2:
            return
        asked: dict[str, dict[str, Any]] = {}
        visible = np.ones((1, 1, sizes.queries, sizes.keys), dtype=bool)
        visible[:, :, _ROW] = False
        shape = bench.subject.shapes.get("mask", ("queries",))
        polar = note.get("mask.boolean") in ("true_attends", "true_forbids")
        if polar and "queries" in shape and bench.subject.takes("mask"):
            asked["mask"] = {"mask": ~visible if bench.mask_inverted else visible}
        if bench.bias_meaning is not None:
            asked["bias"] = {bench.bias_meaning: np.where(visible, 0.0, -np.inf)}
        if not asked:
            return
        query, key = moderate(bench)
        value = bench.random_value(sizes)
        plain = bench.subject.output(query, key, value)
        found: dict[str, str] = {}
        reach = 0.0
        for how, given in asked.items():
            try:
                row = bench.subject.output(query, key, value, **given)[:, :, _ROW]
                moved = bench.subject.output(query, key, value + 1.0, **given)[:, :, _ROW]
            except Refused as refusal:
                bench.refused(self.name, "a row without a visible key", refusal)
                found[how] = "refused"
                continue
            found[how] = classify_row(row, value, plain[:, :, _ROW])
            if found[how] not in ("nan", "zero"):
                reach = max(reach, float(np.max(np.abs(moved - row))))
            self._witness(bench, how, given)
        note.write(mask__empty_rows=found, mask__forbidden_reach_empty=reach)

    def _witness(self, bench: Bench, how: str, given: dict[str, Any]) -> None:
        sizes = bench.sizes
        query = np.zeros((sizes.batch, sizes.heads, sizes.queries, sizes.head_dim))
        key = np.zeros((sizes.batch, sizes.kv_heads, sizes.keys, sizes.head_dim))
        value = np.ones((sizes.batch, sizes.kv_heads, sizes.keys, sizes.value_dim))
        for fact in (f"mask.empty_rows.{how}", "mask.empty_rows", "mask.forbidden_reach_empty"):
            bench.witness(
                fact,
                f"query {_ROW} may attend to no key, and every value is 1: its output is the sum "
                "of the weights that it gave to forbidden keys",
                query,
                key,
                value,
                seen=f"output[0, 0, {_ROW}, 0]",
                expected="0.0",
                asked=given,
            )


def classify_row(row: Floats, value: Floats, plain: Floats) -> str:
    """Return in one word what an empty row ``(batch, heads, value_dim)`` holds."""
    if np.isnan(row).all():
        return "nan"
    if not np.isfinite(row).all():
        return "other"
    slack = 1e-3 * (1.0 + float(np.max(np.abs(value))))
    heads = row.shape[1] // value.shape[1]
    mean = np.repeat(value.mean(axis=2), heads, axis=1)
    for word, expected in (("zero", 0.0), ("uniform", mean), ("as-unmasked", plain)):
        if float(np.max(np.abs(row - expected))) <= slack:
            return word
    return "other"
