"""A mask of the keys of each sample, in the convention that its name promises."""

from __future__ import annotations

import numpy as np

from rootdk.identify.bench import Bench
from rootdk.identify.masks import expected_weights, moderate
from rootdk.identify.probes._base import Probe
from rootdk.identify.subject import Refused
from rootdk.records import ArgumentFact

__all__ = ["KeyPadding"]


class KeyPadding(Probe):
    """Padding that differs by sample, against weights over what is real."""

    name = "key padding"
    order = 61
    fills = (
        "mask.argument",
        "mask.boolean",
        "mask.documented",
        "mask.after_softmax",
        "mask.masked_sum_min",
    )

    def run(self, bench: Bench) -> None:
        """Give each sample its own padding."""
        subject, note = bench.subject, bench.notebook
        own = subject.own_name("key_padding")
        if own is None:
            return
        word = subject.adapted.words["key_padding"]
        query, key = moderate(bench)
        lengths = np.arange(query.shape[0]) + key.shape[2] // 2
        visible = np.arange(key.shape[2]) < lengths[:, None]
        given = visible if subject.layout.has("b") else visible[0]
        try:
            seen = bench.weights(query, key, key_padding=given)
        except Refused as refusal:
            bench.refused(self.name, own, refusal)
            return
        wide = visible[:, None, None, :]
        offs = {
            "as-asked": expected_weights(bench, query, key, mask=wide),
            "inverted": expected_weights(bench, query, key, mask=~wide),
            "none": expected_weights(bench, query, key),
            "after the softmax": expected_weights(bench, query, key) * wide,
        }
        what = min(offs, key=lambda name: float(np.max(np.abs(seen - offs[name]))))
        close = float(np.max(np.abs(seen - offs[what]))) < 2e-3
        meant = "true_forbids" if word.form == "inverted" else "true_attends"
        other = "true_attends" if meant == "true_forbids" else "true_forbids"
        words = {"inverted": other, "none": "none"}
        reading = words.get(what, meant) if close else "other"
        after = close and what == "after the softmax"
        if note.get("mask.argument") is None:
            note.write(mask__argument=own, mask__boolean=reading, mask__documented=meant)
            note.write(mask__after_softmax=after)
        if after:
            note.write(mask__masked_sum_min=float(seen.sum(axis=-1).min()))
        note.arguments[own] = ArgumentFact(
            name=own,
            meaning="mask",
            tried=f"{own}=(padding by sample)",
            effect="as-asked" if reading == meant else "none" if reading == "none" else "wrong",
            detail="" if reading == meant else reading,
            difference=float(np.max(np.abs(seen - offs["none"]))),
            from_asked=float(np.max(np.abs(seen - offs["as-asked"]))),
        )
        value = np.zeros((*key.shape[:3], bench.sizes.value_dim))
        value[:, :, -1, 0] = 1.0
        bench.witness(
            "mask.boolean",
            "query and key are 0; the value is 1 at the last key, which is padding in every "
            "sample: its weight is shown",
            np.zeros_like(query),
            np.zeros_like(key),
            value,
            seen="output[:, 0, 0, 0]",
            expected=f"np.zeros({query.shape[0]})",
            asked={"key_padding": given},
        )
