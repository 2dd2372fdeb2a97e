"""Whether a mask holds at scores far from 0, forbidden scores far above, and forbidden values."""

from __future__ import annotations

import numpy as np

from rootdk._lib.arrays import float_info
from rootdk.identify.bench import Bench
from rootdk.identify.masks import moderate
from rootdk.identify.probes._base import Probe
from rootdk.identify.probes.boolean_mask import mixed_mask
from rootdk.identify.subject import Bools, Floats, Refused

__all__ = ["MaskStrength"]

_REGIMES = ((0.0, 0.0), (0.0, 1000.0), (-1e5, 0.0), (1e5, 0.0), (0.0, 1e5))
"""Height of visible scores, and how far forbidden ones stand above them."""


class MaskStrength(Probe):
    """Forbidden keys at every height, and forbidden keys and values as large as the dtype holds."""

    name = "mask strength"
    order = 64
    fills = (
        "mask.leak",
        "mask.leak_shift",
        "mask.leak_gap",
        "mask.fill",
        "mask.forbidden_values",
        "mask.forbidden_bound",
        "mask.nonfinite_values",
    )

    def run(self, bench: Bench) -> None:
        """Try what must not matter, by the mask or failing that by causal order."""
        boolean = bench.notebook.get("mask.boolean")
        if not bench.subject.takes("mask"):
            return
        if boolean not in ("true_attends", "true_forbids") or bench.notebook.get("mask.leak"):
            return
        if bench.notebook.get("mask.after_softmax"):
            return
        self._heights(bench)
        self._values(bench)

    def _heights(self, bench: Bench) -> None:
        note = bench.notebook
        value = note.get("scale.value")
        usable = value and not bench.normalises and not note.get("scale.varies")
        if not usable or note.get("softmax.axis") != "keys":
            return
        mask = mixed_mask(bench, rows=False)
        for shift, gap in _REGIMES:
            query, key = _at_height(bench, value, mask, shift, gap)
            try:
                seen = bench.masked(query, key, mask)
            except Refused as refusal:
                bench.refused(self.name, f"scores of {shift:g}", refusal)
                continue
            hidden = np.where(mask, 0.0, np.abs(seen))
            leak = float(np.max(hidden))
            if np.isnan(seen).any():
                continue
            note.write(mask__leak=leak if leak > 1e-6 else 0.0)
            if leak > 1e-6:
                note.write(mask__leak_shift=shift, mask__leak_gap=gap)
                self._fill(bench, seen, mask, shift)
                self._witness(bench, query, key, mask)
                return

    def _fill(self, bench: Bench, seen: Floats, mask: Bools, shift: float) -> None:
        """Write down the score that hidden keys had, where both kinds have a weight."""
        scores = bench.log_weights(seen)
        shown = np.broadcast_to(mask, scores.shape)
        visible, hidden = scores[shown], scores[~shown]
        if np.isfinite(visible).all() and np.isfinite(hidden).all():
            bench.notebook.write(mask__fill=shift + float(hidden.mean() - visible.mean()))

    def _values(self, bench: Bench) -> None:
        """Move forbidden keys and values as far as can be; what is allowed must stay."""
        query, key = moderate(bench)
        value = bench.random_value(bench.sizes)
        mask = mixed_mask(bench, rows=False)
        hidden = ~mask[0, 0, 0]
        own = ~mask if bench.mask_inverted else mask
        large = min(1e30, float_info(bench.subject.dtype).max / 64.0)
        far_key, far_value, nan_value = key.copy(), value.copy(), value.copy()
        signs = np.where(np.arange(key.shape[-1]) % 2, large, -large)
        far_key[:, :, hidden] = signs
        far_value[:, :, hidden] = np.where(np.arange(value.shape[-1]) % 2, large, -large)
        nan_value[:, :, hidden] = np.nan
        try:
            base = bench.subject.output(query, key, value, mask=own)
            far = bench.subject.output(query, far_key, far_value, mask=own)
            nan = bench.subject.output(query, key, nan_value, mask=own)
        except Refused as refusal:
            bench.refused(self.name, "large numbers at forbidden keys", refusal)
            return
        moved = np.abs(far - base)
        bench.notebook.write(
            mask__forbidden_values=float("inf") if np.isnan(moved).any() else float(moved.max()),
            mask__forbidden_bound=64.0 * bench.eps * float(np.max(np.abs(value))),
            mask__nonfinite_values="passes" if np.isnan(nan).any() else "stopped",
        )

    def _witness(self, bench: Bench, query: Floats, key: Floats, mask: Bools) -> None:
        value = np.zeros((*key.shape[:3], bench.sizes.value_dim))
        value[:, :, ~mask[0, 0, 0], 0] = 1.0
        bench.witness(
            "mask.leak",
            "the value is 1 at forbidden keys and 0 at visible ones, so that an output is the "
            "weight that forbidden keys got",
            query,
            key,
            value,
            seen="output[0, 0, :, 0]",
            expected=f"np.zeros({bench.sizes.queries})",
            asked={"mask": ~mask if bench.mask_inverted else mask},
        )


def _at_height(
    bench: Bench, scale: float, mask: Bools, shift: float, gap: float
) -> tuple[Floats, Floats]:
    """Return query and key whose scaled scores are ``shift``, and ``gap`` more when hidden."""
    sizes = bench.sizes
    query = np.zeros((sizes.batch, sizes.heads, sizes.queries, sizes.head_dim))
    key = np.zeros((sizes.batch, sizes.kv_heads, sizes.keys, sizes.head_dim))
    # A power of two on each side keeps the products exact.
    query[..., 0], query[..., 1] = shift / scale, 1.0 / scale
    key[..., 0] = 1.0
    key[..., 1] = np.where(mask[0, 0, 0], 0.0, gap)
    return bench.subject.rounded(query), bench.subject.rounded(key)
