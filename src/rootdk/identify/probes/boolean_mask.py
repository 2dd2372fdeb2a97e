"""What True in a boolean mask does, in which shapes it is taken, and whose mask acts on whom."""

from __future__ import annotations

import numpy as np

from rootdk.identify.bench import Bench, NotReady
from rootdk.identify.masks import Reading, expected_weights, moderate, read_mask
from rootdk.identify.probes._base import Probe
from rootdk.identify.subject import Bools, Floats, Refused

__all__ = ["BooleanMask", "mixed_mask"]

_SHAPES = (
    (("batch", "heads", "queries", "keys"), True),
    (("batch", "heads", "queries", "keys"), False),
    (("batch", "-heads", "queries", "keys"), True),
    (("-batch", "-heads", "queries", "keys"), True),
    (("batch", "-heads", "-queries", "keys"), False),
)
"""Shapes of a mask that are tried until one tells something, and whether its rows differ; a minus
marks an axis that is not there."""

_OTHER = {"true_attends": "true_forbids", "true_forbids": "true_attends"}

_BROADCASTS = {
    "(queries, keys)": ("-batch", "-heads", "queries", "keys"),
    "(1, 1, queries, keys)": ("queries", "keys"),
    "(batch, 1, queries, keys)": ("batch", "queries", "keys"),
    "(1, heads, queries, keys)": ("heads", "queries", "keys"),
    "(batch, 1, 1, keys)": ("batch", "keys"),
}


class BooleanMask(Probe):
    """Weights under a mask that hides some keys of every row, against every reading of it."""

    name = "boolean mask"
    order = 60
    fills = (
        "mask.argument",
        "mask.boolean",
        "mask.documented",
        "mask.after_softmax",
        "mask.masked_sum_min",
        "mask.fill",
        "mask.leak",
        "mask.leak_shift",
        "mask.broadcasts",
        "mask.per_sample",
        "mask.per_head",
    )

    def run(self, bench: Bench) -> None:
        """Find the shape that is taken, read the polarity, then try other shapes."""
        subject, note = bench.subject, bench.notebook
        if not subject.takes("mask"):
            return
        note.write(mask__argument=subject.own_name("mask"))
        query, key = moderate(bench)
        found = self._shape(bench, query, key)
        if found is None:
            raise NotReady("no boolean mask was taken")
        reading = found
        inverted = subject.adapted.words["mask"].form == "inverted"
        own = _OTHER.get(reading.boolean, reading.boolean) if inverted else reading.boolean
        note.write(
            mask__boolean=own,
            mask__documented="true_forbids" if inverted else "true_attends",
            mask__after_softmax=reading.after_softmax,
        )
        if reading.leak:
            note.write(
                mask__leak=reading.leak,
                mask__leak_shift=0.0,
                mask__leak_gap=0.0,
                mask__fill=reading.fill,
            )
        self._witness(bench, reading)
        polar = reading.boolean in ("true_attends", "true_forbids")
        if polar and not reading.leak and not reading.after_softmax:
            bench.mask_inverted = reading.boolean == "true_forbids"
            self._whose(bench, query, key)
            self._broadcasts(bench, query, key)

    def _shape(self, bench: Bench, query: Floats, key: Floats) -> Reading | None:
        layout, subject = bench.subject.layout, bench.subject
        vague: dict[str, tuple[tuple[str, ...], Reading]] = {}
        for shape, rows in _SHAPES:
            present = tuple(
                f"-{axis}" if (axis == "batch" and not layout.has("b"))
                or (axis == "heads" and not layout.has("h")) else axis
                for axis in shape
            )  # fmt: skip
            mask = mixed_mask(bench, rows=rows)
            subject.shapes["mask"] = present
            try:
                seen = bench.weights(query, key, mask=mask)
            except Refused as refusal:
                bench.refused(self.name, f"a boolean mask of {_text(present)}", refusal)
                continue
            reading = read_mask(bench, query, key, mask, seen)
            if reading.boolean not in ("other", "none"):
                self._sum(bench, seen, reading)
                return reading
            vague.setdefault(reading.boolean, (present, reading))
        if not vague:
            subject.shapes.pop("mask", None)
            return None
        subject.shapes["mask"], reading = vague.get("other") or vague["none"]
        return reading

    def _sum(self, bench: Bench, seen: Floats, reading: Reading) -> None:
        if reading.boolean != "none":
            bench.notebook.write(mask__masked_sum_min=float(seen.sum(axis=-1).min()))

    def _whose(self, bench: Bench, query: Floats, key: Floats) -> None:
        """See whether a mask of a sample, or of a head, acts on that one."""
        taken = bench.subject.shapes["mask"]
        for fact, axis, size in (("per_sample", "batch", 0), ("per_head", "heads", 1)):
            if axis not in taken or query.shape[size] < 2:
                continue
            mask = _differing(bench, size)
            try:
                seen = bench.masked(query, key, mask)
            except Refused as refusal:
                bench.refused(self.name, f"masks that differ by {axis}", refusal)
                continue
            right = expected_weights(bench, query, key, mask=mask)
            bench.notebook.write(**{f"mask__{fact}": bool(np.max(np.abs(seen - right)) < 2e-3)})

    def _broadcasts(self, bench: Bench, query: Floats, key: Floats) -> None:
        layout, subject = bench.subject.layout, bench.subject
        if layout.text not in ("bhsd", "bshd") or bench.sizes.batch < 2:
            return
        taken, found = subject.shapes["mask"], {}
        for text, shape in _BROADCASTS.items():
            size = 1 if "heads" in shape else 0
            mask = mixed_mask(bench, rows="queries" in shape)
            if "batch" in shape or "heads" in shape:
                mask = _differing(bench, size, rows="queries" in shape)
            subject.shapes["mask"] = shape
            try:
                seen = bench.masked(query, key, mask)
            except Refused as refusal:
                bench.refused(self.name, f"a boolean mask of {text}", refusal)
                found[text] = "refused"
                continue
            right = expected_weights(bench, query, key, mask=mask)
            found[text] = "ok" if np.max(np.abs(seen - right)) < 2e-3 else "wrong"
        subject.shapes["mask"] = taken
        bench.notebook.write(mask__broadcasts=found)

    def _witness(self, bench: Bench, reading: Reading) -> None:
        sizes = bench.sizes
        query = np.zeros((sizes.batch, sizes.heads, sizes.queries, sizes.head_dim))
        key = np.zeros((sizes.batch, sizes.kv_heads, sizes.keys, sizes.head_dim))
        value = np.zeros((sizes.batch, sizes.kv_heads, sizes.keys, sizes.value_dim))
        value[..., 0, 0], value[..., 1, 1] = 1.0, 1.0
        mask = np.ones((sizes.batch, sizes.heads, sizes.queries, sizes.keys), dtype=bool)
        mask[..., 0] = False
        for fact in ("mask.boolean", "mask.leak", "mask.after_softmax"):
            bench.witness(
                fact,
                "query and key are 0, so that visible keys weigh the same; the mask is False for "
                "the first key alone. Shown are the weights of the first two keys",
                query,
                key,
                value,
                seen="output[0, 0, 0, :2]",
                expected=f"np.array([0.0, 1 / {sizes.keys - 1}])",
                asked={"mask": mask},
            )


def mixed_mask(bench: Bench, *, rows: bool = True) -> Bools:
    """Return a mask ``(1, 1, queries, keys)`` that hides and shows keys in every row.

    With ``rows=False`` it hides the same keys in each.
    """
    queries, keys = bench.sizes.queries, bench.sizes.keys
    i, j = np.arange(queries)[:, None] * (1 if rows else 0), np.arange(keys)[None, :]
    mask = (i + 2 * j) % 3 != 1
    mask[:, 0] = True  # no empty row, and the first key is what causal order leaves too
    whole: Bools = mask[None, None]
    return whole


def _differing(bench: Bench, size: int, *, rows: bool = True) -> Bools:
    """Return masks that differ along the first (0) or second (1) axis, each with all rows."""
    mask = mixed_mask(bench, rows=rows)
    shifted = np.roll(mask, 1, axis=-1)
    shifted[..., 0] = True
    count = (bench.sizes.batch, bench.sizes.heads)[size]
    return np.concatenate([mask if n % 2 else shifted for n in range(count)], axis=size)


def _text(shape: tuple[str, ...]) -> str:
    axes = ("batch", "heads", "queries", "keys")
    words = [axis if axis in shape else "1" for axis in axes if f"-{axis}" not in shape]
    return f"({', '.join(words)})"
