"""Gradients against those of the model, written out, in float64."""

from __future__ import annotations

import numpy as np

from rootdk.identify.bench import Bench, NotReady
from rootdk.identify.masks import moderate
from rootdk.identify.model import Model
from rootdk.identify.probes._base import Probe
from rootdk.identify.probes.boolean_mask import mixed_mask
from rootdk.identify.subject import Floats, Refused

__all__ = ["Gradients"]


class Gradients(Probe):
    """Query, key and value at once, plain and under a mask."""

    name = "gradients"
    order = 85
    fills = (
        "gradients.query",
        "gradients.key",
        "gradients.value",
        "gradients.bound",
        "gradients.finite",
        "gradients.masked_finite",
    )

    def run(self, bench: Bench) -> None:
        """Compare, where the library has gradients and the model is a plain softmax."""
        if not bench.subject.library.gradients_exist:
            return
        model = bench.need_model()
        if not _is_plain(model):
            raise NotReady("gradients are compared for a plain softmax over keys only")
        query, key = moderate(bench)
        value = bench.random_value(bench.sizes)
        shape = (*query.shape[:3], value.shape[3])
        along = bench.subject.rounded(bench.rng.standard_normal(shape))
        try:
            seen = bench.subject.gradients(query, key, value, along)
        except Refused as refusal:
            bench.refused(self.name, "gradients", refusal)
            return
        right = _gradients(model, query, key, value, along)
        errors = [
            float(np.max(np.abs(s - r)) / max(float(np.max(np.abs(r))), 1e-30))
            for s, r in zip(seen, right, strict=True)
        ]
        bench.notebook.write(
            gradients__query=errors[0],
            gradients__key=errors[1],
            gradients__value=errors[2],
            gradients__bound=1e-3 + 64.0 * bench.eps,
            gradients__finite=all(bool(np.isfinite(s).all()) for s in seen),
        )
        self._masked(bench, query, key, value, along)

    def _masked(
        self, bench: Bench, query: Floats, key: Floats, value: Floats, along: Floats
    ) -> None:
        if not bench.has_mask:
            return
        mask = mixed_mask(bench, rows=False)
        own = ~mask if bench.mask_inverted else mask
        try:
            seen = bench.subject.gradients(query, key, value, along, mask=own)
        except Refused as refusal:
            bench.refused(self.name, "gradients under a mask", refusal)
            return
        finite = all(bool(np.isfinite(s).all()) for s in seen)
        bench.notebook.write(gradients__masked_finite=finite)


def _is_plain(model: Model) -> bool:
    return (
        model.axis == "keys"
        and model.times == 1
        and model.softcap is None
        and not model.normalises
        and not model.renormalised
        and model.sink is None
    )


def _gradients(
    model: Model, query: Floats, key: Floats, value: Floats, along: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return d⟨output, along⟩/d(query, key, value): s = c q·k, o = f softmax(s) v."""
    from rootdk.identify.subject import sizes_of

    sizes = sizes_of(query, key, value)
    weights = model.weights(query, key, value_dim=value.shape[3])
    factor = model.factor(sizes)
    by_weight = factor * (along @ value.swapaxes(-1, -2))
    plain = weights / factor
    by_score = plain * (by_weight - np.sum(plain * by_weight, axis=-1, keepdims=True))
    by_product = model.scale(sizes) * by_score
    return (
        by_product @ key,
        by_product.swapaxes(-1, -2) @ query,
        weights.swapaxes(-1, -2) @ along,
    )
