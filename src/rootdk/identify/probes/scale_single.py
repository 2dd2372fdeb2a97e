"""The scale where a size is 1: one query (a step of decoding), one head, one sample."""

from __future__ import annotations

import numpy as np

from rootdk.identify.bench import Bench
from rootdk.identify.fitting import Fit, in_regime
from rootdk.identify.probes._base import Probe
from rootdk.identify.probes.formula import value_at
from rootdk.identify.probes.scale_value import SMALL
from rootdk.identify.subject import Refused
from rootdk.records import ScalePoint, Sizes

__all__ = ["ScaleSingle"]

_CLOSE = 5e-3
_VAGUE = 1e-3
"""A slope that is known to no better than this share of itself tells nothing."""


class ScaleSingle(Probe):
    """Where a size is 1, functions take other paths: the scale must be what others lead to."""

    name = "scale at one"
    order = 52
    fills = ("scale.apart",)

    def run(self, bench: Bench) -> None:
        """Measure each size at 1 that is not 1 already, against the law."""
        note = bench.notebook
        law, value = note.get("scale.law"), note.get("scale.value")
        known = law is not None and law.name is not None and note.get("softmax.axis") == "keys"
        if not known or bench.normalises or note.get("scale.varies"):
            return
        apart = []
        for sizes in _single_sizes(bench):
            expected = value_at(law, value, bench.sizes, sizes)
            found = self._measured(bench, sizes)
            if found is None or abs(found.slope - expected) <= _CLOSE * abs(expected):
                continue
            apart.append(
                ScalePoint(
                    sizes=sizes,
                    scale=found.slope,
                    uncertainty=found.uncertainty,
                    residual=found.residual,
                )
            )
            if len(apart) == 1:
                _witness(bench, sizes, found.slope, expected)
        note.write(scale__apart=tuple(apart))

    def _measured(self, bench: Bench, sizes: Sizes) -> Fit | None:
        """Return the line through log-weights, None where there is none to be read."""
        try:
            found = in_regime(bench, sizes, SMALL, start=bench.amplitude)
        except Refused as refusal:
            what = next(n for n in _NAMES if getattr(sizes, n) != getattr(bench.sizes, n))
            bench.refused(self.name, f"{what} 1", refusal)
            return None
        told = found.uncertainty <= _VAGUE * abs(found.slope)
        return found if told and found.is_line(bench) else None


_NAMES = ("queries", "heads", "batch")


def _single_sizes(bench: Bench) -> list[Sizes]:
    base = bench.sizes
    square = base.queries == base.keys
    names = [n for n in _NAMES if getattr(base, n) > 1 and not (n == "queries" and square)]
    return [bench.with_sizes(**{name: 1}) for name in names]


def _witness(bench: Bench, sizes: Sizes, scale: float, expected: float) -> None:
    side = float(2.0 ** np.round(np.log2(np.sqrt(1.0 / max(abs(scale), 1e-12)))))
    query = np.zeros((sizes.batch, sizes.heads, sizes.queries, sizes.head_dim))
    key = np.zeros((sizes.batch, sizes.kv_heads, sizes.keys, sizes.head_dim))
    value = np.zeros((sizes.batch, sizes.kv_heads, sizes.keys, bench.width(sizes)))
    query[..., 0], key[..., 1, 0] = side, side
    value[..., 0, 0], value[..., 1, 1] = 1.0, 1.0
    changed = next(n for n in _NAMES if getattr(sizes, n) != getattr(bench.sizes, n))
    bench.notebook.witnesses.pop("scale", None)
    bench.witness(
        "scale",
        "the log-ratio of two weights over the difference of their products q·k is the effective "
        f"scale; {changed} is 1",
        query,
        key,
        value,
        seen=f"np.log(output[0, 0, 0, 1] / output[0, 0, 0, 0]) / {side * side:.9g}",
        expected=f"{expected:.9g}",
    )
