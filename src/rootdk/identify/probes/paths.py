"""Ways to the same result, and whether they agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rootdk.identify.bench import Bench
from rootdk.identify.masks import moderate
from rootdk.identify.probes._base import Probe
from rootdk.identify.probes.boolean_mask import mixed_mask
from rootdk.identify.subject import Floats, Refused
from rootdk.records import Agreement

__all__ = ["Paths"]


class Paths(Probe):
    """Mask or bias, flag or mask, all at once or one by one, however the arrays lie in memory."""

    name = "paths"
    order = 90
    fills = ("paths",)

    def run(self, bench: Bench) -> None:
        """Compare every pair of ways that the function offers."""
        ways: dict[str, Callable[[Bench, Floats, Floats, Floats], tuple[Floats, Floats] | None]] = {
            "boolean mask and bias of −inf": _mask_and_bias,
            "causal flag and explicit mask": _flag_and_mask,
            "weights returned and not": _with_weights,
            "prefill and decode": _prefill_and_decode,
            "batch of many and of one": _batch_of_one,
            "contiguous and strided arrays": _strided,
            "one key and its value": _one_key,
        }
        query, key = moderate(bench)
        value = bench.random_value(bench.sizes)
        # A difference of rounding: other block sizes sum in another order.
        bound = (1e-4 + 64.0 * bench.eps) * float(np.max(np.abs(value)))
        for what, way in ways.items():
            try:
                pair = way(bench, query, key, value)
            except Refused as refusal:
                bench.refused(self.name, what, refusal)
                continue
            if pair is None:
                continue
            difference = float(np.max(np.abs(pair[0] - pair[1]), initial=0.0))
            if np.isnan(difference):
                difference = float("inf")
            bench.notebook.paths.append(Agreement(what=what, difference=difference, bound=bound))


def _mask_and_bias(
    bench: Bench, query: Floats, key: Floats, value: Floats
) -> tuple[Floats, Floats] | None:
    polar = bench.has_mask
    if not polar or bench.bias_meaning is None or bench.notebook.get("mask.leak"):
        return None
    mask = mixed_mask(bench)
    own = ~mask if bench.mask_inverted else mask
    one = bench.subject.output(query, key, value, mask=own)
    bias = np.where(mask, 0.0, -np.inf)
    given: dict[str, Any] = {bench.bias_meaning: bias}
    return one, bench.subject.output(query, key, value, **given)


def _flag_and_mask(
    bench: Bench, query: Floats, key: Floats, value: Floats
) -> tuple[Floats, Floats] | None:
    note = bench.notebook
    word = note.get("mask.alignment")
    polar = bench.has_mask
    if not polar or not bench.causal_value or word not in ("top_left", "bottom_right"):
        return None
    sizes = bench.sizes
    if "queries" not in bench.subject.shapes.get("mask", ("queries",)) or note.get("mask.leak"):
        return None
    shift = sizes.keys - sizes.queries if word == "bottom_right" else 0
    mask = np.tri(sizes.queries, sizes.keys, shift, dtype=bool)[None, None]
    own = ~mask if bench.mask_inverted else mask
    one = bench.subject.output(query, key, value, **bench.causal_value)
    return one, bench.subject.output(query, key, value, mask=own)


def _with_weights(
    bench: Bench, query: Floats, key: Floats, value: Floats
) -> tuple[Floats, Floats] | None:
    if not bench.subject.takes("weights"):
        return None
    one = bench.subject.output(query, key, value, weights=True)
    return one, bench.subject.output(query, key, value, weights=False)


def _prefill_and_decode(
    bench: Bench, query: Floats, key: Floats, value: Floats
) -> tuple[Floats, Floats] | None:
    aligned = bench.notebook.get("mask.alignment") == "bottom_right"
    if not aligned or not bench.causal_value or query.shape[2] == 1:
        return None
    whole = bench.subject.output(query, key, value, **bench.causal_value)
    last = bench.subject.output(query[:, :, -1:], key, value, **bench.causal_value)
    return whole[:, :, -1:], last


def _batch_of_one(
    bench: Bench, query: Floats, key: Floats, value: Floats
) -> tuple[Floats, Floats] | None:
    if query.shape[0] < 2 or bench.notebook.get("softmax.axis") == "batch":
        return None
    whole = bench.subject.output(query, key, value)
    return whole[:1], bench.subject.output(query[:1], key[:1], value[:1])


def _strided(
    bench: Bench, query: Floats, key: Floats, value: Floats
) -> tuple[Floats, Floats] | None:
    library = bench.subject.library
    if library.strided(library.array(query, dtype=bench.subject.dtype)) is None:
        return None
    whole = bench.subject.output(query, key, value)
    return whole, bench.subject.output(query, key, value, strided=True)


def _one_key(
    bench: Bench, query: Floats, key: Floats, value: Floats
) -> tuple[Floats, Floats] | None:
    note = bench.notebook
    whole = note.get("softmax.axis") == "keys" and note.get("softmax.rows_normalised")
    if not whole or bench.sizes.queries == bench.sizes.keys or note.get("mask.always_causal"):
        return None
    one = bench.subject.output(query, key[:, :, :1], value[:, :, :1])
    return one, np.broadcast_to(value[:, :, :1], one.shape)
