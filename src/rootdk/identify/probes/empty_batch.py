"""A batch of no samples, as the last of a data set or of a request may be."""

from __future__ import annotations

from rootdk.identify.bench import Bench
from rootdk.identify.masks import moderate
from rootdk.identify.probes._base import Probe
from rootdk.identify.subject import Refused

__all__ = ["EmptyBatch"]


class EmptyBatch(Probe):
    """Nothing in, nothing out, in the right shape; to refuse it is a fact and no fault."""

    name = "empty batch"
    order = 95
    fills = ("call.empty_batch",)

    def run(self, bench: Bench) -> None:
        """Call it with a batch of 0; sizes that cannot be empty are left alone."""
        if not bench.subject.layout.has("b"):
            return
        query, key = moderate(bench)
        value = bench.random_value(bench.sizes)
        try:
            bench.subject.output(query[:0], key[:0], value[:0])
        except Refused as refusal:
            wrong = refusal.kind in ("wrong-shape", "not-an-array")
            bench.notebook.write(call__empty_batch="wrong-shape" if wrong else "refused")
        else:
            bench.notebook.write(call__empty_batch="right-shape")
