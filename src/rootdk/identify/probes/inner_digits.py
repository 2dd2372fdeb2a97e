"""How many digits of the query arrive in the weights: fewer than its dtype has, after a cast."""

from __future__ import annotations

import numpy as np

from rootdk._lib.arrays import is_half
from rootdk.identify.bench import Bench
from rootdk.identify.fitting import in_regime
from rootdk.identify.probes._base import Probe
from rootdk.identify.subject import Floats, Refused

__all__ = ["InnerDigits"]

_BITS = 4
"""Entries have so few significant bits that every float dtype holds them as they are."""
_STEPS = {"bfloat16": 2.0**-10, "float16": 2.0**-14}
"""A relative change that the dtype cannot hold, and the next wider one can."""
_VISIBLE = 2.0**-3
_MOVED = 1e-3
_SHARE = 0.2
_LEAST = 5


class InnerDigits(Probe):
    """Change every entry of query by less than half precision holds; some row must move."""

    name = "inner digits"
    order = 27
    fills = ("precision.inner_dtype", "precision.inner_rows")

    def run(self, bench: Bench) -> None:
        """Count the rows that stay the same to the last bit, among those that can move."""
        dtype = bench.subject.dtype
        if is_half(dtype) or bench.notebook.get("softmax.axis") != "keys":
            return
        found = in_regime(bench, bench.sizes, 1.0, axis="keys")
        if found.lost:
            return
        query, key = _few_bits(found.query), _few_bits(found.key)
        signs = np.where(bench.rng.random(query.shape) < 0.5, -1.0, 1.0)

        def weights(step: float) -> Floats:
            return bench.weights(query * (1.0 + step * signs), key)

        try:
            base = weights(0.0)
            movable = np.max(np.abs(weights(_VISIBLE) - base), axis=-1) > _MOVED
            rows = int(movable.sum())
            if rows < _LEAST:
                return
            for name, step in _STEPS.items():
                still = int((np.all(weights(step) == base, axis=-1) & movable).sum())
                if still >= _SHARE * rows:
                    bench.inner_dtype = name
                    facts = {"dtype": dtype, "inner_dtype": name, "inner_rows": (still, rows)}
                    bench.notebook.precision[dtype] = facts
                    _witness(bench, step, found.slope)
                    return
        except Refused as refusal:
            bench.refused(self.name, "entries of few digits", refusal)


def _few_bits(values: Floats) -> Floats:
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.round(mantissa * 2.0**_BITS) / 2.0**_BITS, exponent))


def _witness(bench: Bench, step: float, slope: float) -> None:
    """Two samples, one with a query that is longer by the step."""
    sizes = bench.sizes
    if sizes.batch < 2 or not slope:
        return
    side = float(2.0 ** np.round(0.5 * np.log2(1.0 / abs(slope))))
    query = np.zeros((sizes.batch, sizes.heads, sizes.queries, sizes.head_dim))
    key = np.zeros((sizes.batch, sizes.kv_heads, sizes.keys, sizes.head_dim))
    value = np.zeros((sizes.batch, sizes.kv_heads, sizes.keys, bench.width(sizes)))
    query[..., 0], key[..., 1, 0] = side, side
    query[1, ..., 0] = side * (1.0 + step)
    value[..., 1, 1] = 1.0
    bench.witness(
        f"precision.{bench.subject.dtype}.inner",
        f"the query of the second sample is longer by one part in {1 / step:g}, which "
        f"{bench.subject.dtype} holds and {bench.inner_dtype} does not: the weight of its second "
        "key must differ",
        query,
        key,
        value,
        seen="output[1, 0, 0, 1] - output[0, 0, 0, 1]",
        expected="'not 0'",
    )
