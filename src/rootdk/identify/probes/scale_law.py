"""The scale at other sizes, one of them changed at a time, short and long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rootdk.identify.bench import Bench, NotReady
from rootdk.identify.fitting import AXES, Fit, fit, in_regime
from rootdk.identify.law import fit_law
from rootdk.identify.probes._base import Probe
from rootdk.identify.probes.scale_value import SMALL
from rootdk.identify.subject import Refused
from rootdk.records import ScalePoint, Sizes, Varies

__all__ = ["LONG", "ScaleLawProbe"]

LONG = 331
"""Keys enough for any kernel to need more than one block of them."""


class ScaleLawProbe(Probe):
    """Effective scales over sizes, and the power law through them."""

    name = "scale law"
    order = 50
    fills = (
        "scale.law",
        "scale.points",
        "scale.varies",
        "softmax.factor_law",
        "softmax.row_sum_min",
        "softmax.row_sum_max",
        "softmax.rows_at",
        "softmax.rows_normalised",
    )

    def run(self, bench: Bench) -> None:
        """Measure every size that the function takes, and fit."""
        note = bench.notebook
        value = note.get("scale.value")
        if value is None or note.get("softmax.axis") not in AXES:
            raise NotReady("the scale at the base sizes is not known")
        points: list[ScalePoint] = list(note.get("scale.points"))
        factors: list[ScalePoint] = []
        if note.get("softmax.factor") is not None:
            factors.append(replace(points[0], scale=note.get("softmax.factor"), uncertainty=1e-6))
        for sizes in _sizes(bench):
            changed = sizes.value_dim != bench.sizes.value_dim and not bench.subject.same_width
            bench.wanted_width = sizes.value_dim if changed else None
            found = self._measure(bench, sizes)
            sizes = replace(sizes, value_dim=bench.width(sizes))
            bench.wanted_width = None
            if found is None:
                continue
            if not self._sums_hold(bench, sizes, found):
                continue
            points.append(
                ScalePoint(
                    sizes=sizes,
                    scale=found.slope,
                    uncertainty=found.uncertainty,
                    residual=found.residual,
                )
            )
            if factors:
                sums = bench.weights(found.query, found.key).sum(axis=-1)
                factors.append(replace(points[-1], scale=float(sums.mean()), uncertainty=1e-6))
            if sizes.keys >= LONG and not found.is_line(bench) and not note.get("scale.varies"):
                self._over_blocks(bench, found)
        if note.get("softmax.rows_at"):
            note.write(softmax__rows_normalised=False)
        note.write(scale__points=tuple(points), scale__law=fit_law(points))
        if factors:
            self._factor(bench, factors)

    def _measure(self, bench: Bench, sizes: Sizes) -> Fit | None:
        note = bench.notebook
        first = tuple(
            {"query": 2, "head": 1, "batch": 0}[v.along]
            for v in note.get("scale.varies", ())
            if v.along in ("query", "head", "batch")
        )
        what = f"sizes {_words(bench.sizes, sizes)}"
        axis = note.get("softmax.axis")
        try:
            if bench.normalises:
                query, key = bench.query_key(sizes)
                return fit(
                    bench, query, key, axis=axis, normalises=bench.normalises, only_first=first
                )
            found = in_regime(
                bench, sizes, SMALL, start=bench.amplitude, axis=axis, only_first=first
            )
        except Refused as refusal:
            bench.refused(self.name, what, refusal)
            return None
        return found if np.isfinite(found.slope) else None

    def _factor(self, bench: Bench, factors: list[ScalePoint]) -> None:
        """Name the law of the sums; where there is none, they are sums and no factor."""
        note, law = bench.notebook, fit_law(factors)
        if law.name is not None:
            note.write(softmax__factor_law=law)
            return
        del note.facts["softmax.factor"]
        sums = [point.scale for point in factors]
        note.write(softmax__row_sum_min=min(sums), softmax__row_sum_max=max(sums))

    def _sums_hold(self, bench: Bench, sizes: Sizes, found: Fit) -> bool:
        """See whether rows that summed to 1 still do; what they are at other sizes is no scale."""
        note = bench.notebook
        low, high = found.sums
        slack = 1e-3 + 64.0 * bench.eps
        if note.get("softmax.rows_normalised") is not True or (
            low >= 1.0 - slack and high <= 1.0 + slack
        ):
            return True
        if not note.get("softmax.rows_at"):
            note.write(
                softmax__row_sum_min=min(low, note.get("softmax.row_sum_min")),
                softmax__row_sum_max=max(high, note.get("softmax.row_sum_max")),
                softmax__rows_at=sizes,
            )
            value = np.ones((*found.key.shape[:3], sizes.value_dim))
            bench.notebook.witnesses.pop("softmax.row_sum_min", None)
            bench.witness(
                "softmax.row_sum_min",
                f"with every value 1, an output is the sum of its row of weights; there are "
                f"{sizes.keys} keys",
                np.zeros_like(found.query) + found.query[:1, :1, :1].round(3),
                found.key.round(3),
                value,
                seen="output[0, 0, :, 0]",
                expected="1.0",
            )
        return False

    def _over_blocks(self, bench: Bench, found: Fit) -> None:
        """See whether the scale changes from one stretch of a long run of keys to the next."""
        stretches = [range(s, min(s + 32, LONG)) for s in range(0, LONG, 32)]
        x, y = found.products, found.scores
        slopes = []
        for keys in stretches:
            part_x = x[..., list(keys)] - np.nanmean(x[..., list(keys)], axis=-1, keepdims=True)
            part_y = y[..., list(keys)] - np.nanmean(y[..., list(keys)], axis=-1, keepdims=True)
            weight = float(np.nansum(part_x * part_x))
            slopes.append(float(np.nansum(part_x * part_y)) / weight if weight else float("nan"))
        if np.ptp(slopes) > 1e-3 * abs(float(np.mean(slopes))):
            bench.notebook.write(
                scale__varies=(
                    Varies(
                        along="run",
                        at=tuple(keys.start for keys in stretches),
                        scales=tuple(slopes),
                    ),
                )
            )


def _sizes(bench: Bench) -> Iterator[Sizes]:
    """Yield sizes with one changed, all of them still different from one another."""
    base, layout = bench.sizes, bench.subject.layout
    wide = base.head_dim % 64 == 0
    for head_dim in (128, 192) if wide else (40, 64):
        yield bench.with_sizes(head_dim=head_dim)
    square = base.queries == base.keys
    long = 384 if wide else LONG
    for keys in (29, long) if not wide else (256, long):
        yield bench.with_sizes(keys=keys, **({"queries": keys} if square else {}))
    if not square:
        # What hides keys unasked may leave more queries than keys without a key to see.
        few = bench.hides
        yield bench.with_sizes(queries=(6 if few else 11) if not wide else (96 if few else 192))
    if layout.has("h"):
        yield bench.with_sizes(heads=8 if not wide else 6)
    if layout.has("b"):
        yield bench.with_sizes(batch=6)
    if not bench.subject.same_width:
        yield bench.with_sizes(value_dim=2 * base.value_dim - 1)


def _words(base: Sizes, sizes: Sizes) -> str:
    fields = ("batch", "heads", "queries", "keys", "head_dim", "value_dim")
    changed = [f for f in fields if getattr(base, f) != getattr(sizes, f)]
    return ", ".join(f"{f} {getattr(sizes, f)}" for f in changed)
