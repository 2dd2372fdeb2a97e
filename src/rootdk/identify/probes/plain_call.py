"""Whether it runs at all, at which sizes, and is a linear function of the values."""

from __future__ import annotations

import dataclasses
import time

import numpy as np

from rootdk.identify.bench import Bench, NotReady
from rootdk.identify.probes._base import Probe
from rootdk.identify.subject import Floats, Refused
from rootdk.records import Sizes

__all__ = ["BASE", "PlainCall"]

BASE = Sizes(batch=2, heads=3, kv_heads=3, queries=5, keys=7, head_dim=16, value_dim=45)
_LARGE = Sizes(batch=2, heads=4, kv_heads=4, queries=64, keys=128, head_dim=64, value_dim=96)


class PlainCall(Probe):
    """The plain call, with all sizes different; and if it is refused, with some equal."""

    name = "plain call"
    order = 10
    fills = (
        "call.outcome",
        "call.error",
        "call.shape",
        "call.expected_shape",
        "call.seconds",
        "softmax.linear_in_value",
    )

    def run(self, bench: Bench) -> None:
        """Find sizes that the function takes, in the first library whose arrays it takes."""
        first: Refused | None = None
        for library in bench.subject.adapted.libraries:
            bench.subject.use(library)
            refusal = self._in_library(bench)
            if refusal is None:
                return
            first = first or refusal
        if first is None:
            raise NotReady("no library whose arrays it could take is installed")
        bench.notebook.write(call__outcome=first.kind, call__error=first.error)
        raise NotReady(f"the plain call {_said(first)}")

    def _in_library(self, bench: Bench) -> Refused | None:
        """Return None if some sizes are taken, and otherwise why the first were not."""
        first: Refused | None = None
        for sizes, same_width in _candidates(bench):
            bench.subject.same_width = same_width
            bench.subject.forget_layout()
            query, key = bench.query_key(sizes, 0.3)
            value = bench.random_value(sizes)
            started = time.perf_counter()
            try:
                output = bench.subject.output(query, key, value)
            except Refused as refusal:
                first = first or refusal
                if refusal.kind in ("not-an-array", "hung"):
                    break
                continue
            bench.sizes = sizes
            if first is not None:
                self._restricted(bench, sizes, same_width, first)
            self._worked(bench, query, key, value, output, time.perf_counter() - started)
            return None
        return first

    def _restricted(self, bench: Bench, sizes: Sizes, same_width: bool, why: Refused) -> None:
        if same_width and not bench.subject.adapted.same_width:
            bench.refused(self.name, "value_dim other than head_dim", why)
        if sizes.queries == sizes.keys:
            bench.refused(self.name, "another number of queries than keys", why)
        if sizes.queries >= _LARGE.queries:
            bench.refused(self.name, "sizes that are no multiples of 64", why)

    def _worked(
        self,
        bench: Bench,
        query: Floats,
        key: Floats,
        value: Floats,
        output: Floats,
        seconds: float,
    ) -> None:
        note = bench.notebook
        finite = bool(np.isfinite(output).all())
        note.write(
            call__outcome="ok" if finite else "non-finite",
            call__shape=output.shape,
            call__seconds=seconds,
        )
        if not finite:
            raise NotReady("the plain call returned NaN or infinity")
        again = bench.subject.output(query, key, value)
        slack = 64.0 * bench.eps * (1.0 + float(np.max(np.abs(value))))
        note.deterministic = float(np.max(np.abs(output - again))) <= slack
        if not np.array_equal(output, again):
            note.remarks.append("two calls with equal inputs differ, if only in the last digits")
        if not note.deterministic:
            bench.is_random = True
            raise NotReady("two calls with equal inputs return different outputs")
        other = bench.random_value(bench.sizes)
        both = bench.subject.output(query, key, bench.subject.rounded(value + 0.5 * other))
        part = bench.subject.output(query, key, other)
        off = float(np.max(np.abs(both - output - 0.5 * part)))
        note.write(softmax__linear_in_value=off <= 4.0 * slack)


def _candidates(bench: Bench) -> list[tuple[Sizes, bool]]:
    """Return the sizes to try, and whether value_dim is kept at head_dim with them."""
    layout = bench.subject.layout
    narrow = {} if layout.has("b") else {"batch": 1}
    if not layout.has("h"):
        narrow |= {"heads": 1, "kv_heads": 1}
    base = dataclasses.replace(BASE, **narrow)
    large = dataclasses.replace(_LARGE, **narrow)
    tries = [
        base,
        dataclasses.replace(base, value_dim=base.head_dim),
        dataclasses.replace(base, queries=base.keys),
        dataclasses.replace(base, queries=base.keys, value_dim=base.head_dim),
        dataclasses.replace(large, value_dim=large.head_dim),
        dataclasses.replace(large, keys=large.queries, value_dim=large.head_dim),
    ]
    found = [(sizes, sizes.value_dim == sizes.head_dim) for sizes in tries]
    if bench.subject.adapted.same_width:
        return [(sizes, equal) for sizes, equal in found if equal]
    return found


def _said(refusal: Refused) -> str:
    verb = {"hung": "did not return", "raised": "raised"}.get(refusal.kind, "failed")
    return f"{verb}: {refusal.error}"
