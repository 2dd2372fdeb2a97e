"""A further term in the denominator: rows that sum to less than 1, by how little they score."""

from __future__ import annotations

import numpy as np

from rootdk._lib.arrays import quiet
from rootdk.identify.bench import Bench
from rootdk.identify.model import capped, scores_of
from rootdk.identify.probes._base import Probe
from rootdk.identify.subject import Floats

__all__ = ["OwnSink"]


class OwnSink(Probe):
    """From the sum of a row and the sum of its exponentials follows what else was added."""

    name = "own sink"
    order = 45
    fills = ("softmax.sink", "softmax.sink_follows_maximum", "softmax.axis")

    def run(self, bench: Bench) -> None:
        """Solve for the further term, and see whether it is one number a head."""
        note = bench.notebook
        value = note.get("scale.value")
        if note.get("softmax.axis") != "unknown" or value is None:
            return
        query, key = bench.query_key(bench.sizes, 2.0 * bench.amplitude)
        products = scores_of(query, key, bench.normalises)
        scores = value * products
        if note.get("softcap.value") is not None:
            scores = capped(scores, note.get("softcap.value"), note.get("softcap.form"))
        sums = bench.weights(query, key).sum(axis=-1)
        top = scores.max(axis=-1)
        with quiet():
            # The sum of a row is Z / (Z + e^sink).
            whole = np.log(np.exp(scores - top[..., None]).sum(axis=-1)) + top
            sink = whole + np.log1p(-sums) - np.log(sums)
        if _is_constant(sink):
            per_head = tuple(float(s) for s in sink.mean(axis=(0, 2)))
            note.write(softmax__axis="keys", softmax__sink=per_head)
        elif _is_constant(sink - top):
            per_head = tuple(float(s) for s in (sink - top).mean(axis=(0, 2)))
            note.write(
                softmax__axis="keys", softmax__sink=per_head, softmax__sink_follows_maximum=True
            )


def _is_constant(sink: Floats) -> bool:
    """Whether there is one number a head."""
    spread = np.abs(sink - sink.mean(axis=(0, 2), keepdims=True))
    return bool(np.isfinite(sink).all()) and float(np.max(spread)) < 1e-2
