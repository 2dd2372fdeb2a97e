"""Which values reach which outputs: the softmax's axis, row sums and leaks."""

from __future__ import annotations

import numpy as np

from rootdk._lib.arrays import quiet
from rootdk.identify.bench import Bench, NotReady
from rootdk.identify.probes._base import Probe
from rootdk.identify.subject import Floats, Refused

__all__ = ["WeightsStructure"]

_SLACK = 2e-4


class WeightsStructure(Probe):
    """With one-hot values the output is the weight of every value on every output."""

    name = "weights"
    order = 20
    fills = (
        "softmax.axis",
        "softmax.row_sum_min",
        "softmax.row_sum_max",
        "softmax.lowest_weight",
        "softmax.rows_normalised",
        "softmax.factor",
        "heads.neighbour_leak",
        "heads.head_leak",
        "heads.swapped",
        "mask.always_causal",
    )

    def run(self, bench: Bench) -> None:
        """Read the weights of two calls: random query, and query 0."""
        note = bench.notebook
        if note.get("softmax.linear_in_value") is False:
            raise NotReady("the output is no linear function of the values")
        query, key = bench.query_key(bench.sizes, self._amplitude(bench))
        whole = _influence(bench, query, key)
        slack = max(_SLACK, 32.0 * bench.eps)
        own = own_weights(whole)
        if np.isnan(own).any():
            raise NotReady("the weights of the plain call hold NaN")
        self._leaks(bench, whole, own, slack)
        self._sums(bench, own, slack)
        self._axis(bench, own, slack)
        self._at_zero(bench, query, key)
        self._witness(bench)

    def _amplitude(self, bench: Bench) -> float:
        """Return a size of the query at which no weight takes all."""
        amplitude = 1.0
        for _ in range(8):
            query, key = bench.query_key(bench.sizes, amplitude)
            weights = bench.weights(query, key)
            with quiet():
                share = weights / weights.sum(axis=-1, keepdims=True)
            if not np.isnan(share).any() and float(np.max(share)) < 0.95:
                return amplitude
            amplitude /= 8.0
        return amplitude

    def _leaks(self, bench: Bench, whole: Floats, own: Floats, slack: float) -> None:
        sizes, note = bench.sizes, bench.notebook
        rest = whole.copy()
        for b in range(sizes.batch):
            for h in range(sizes.heads):
                rest[b, h, :, b, h] = 0.0
        neighbours = rest.copy()
        for b in range(sizes.batch):
            neighbours[b, :, :, b] = 0.0
        largest_neighbour = float(np.max(np.abs(neighbours), initial=0.0))
        largest_head = float(np.max(np.abs(rest - neighbours), initial=0.0))
        note.write(
            heads__neighbour_leak=largest_neighbour if largest_neighbour > slack else 0.0,
            heads__head_leak=largest_head if largest_head > slack else 0.0,
        )
        if largest_head > slack and sizes.queries == sizes.keys and sizes.heads > 1:
            # Attention over heads: what reaches position i comes from position i of any head.
            elsewhere = whole.copy()
            for i in range(sizes.queries):
                elsewhere[:, :, i, :, :, i] = 0.0
            note.write(heads__swapped=float(np.max(np.abs(elsewhere))) <= slack)
        elif sizes.heads > 1:
            note.write(heads__swapped=False)
        if largest_head > slack or largest_neighbour > slack:
            del own
            raise NotReady(
                "an output reads the values of other heads"
                if largest_head > slack
                else "an output reads the values of another sample"
            )

    def _sums(self, bench: Bench, own: Floats, slack: float) -> None:
        sums = own.sum(axis=-1)
        low, high = float(sums.min()), float(sums.max())
        note = bench.notebook
        note.write(
            softmax__row_sum_min=low,
            softmax__row_sum_max=high,
            softmax__lowest_weight=float(own.min()) if own.min() < -slack else 0.0,
            softmax__rows_normalised=low >= 1.0 - slack and high <= 1.0 + slack,
        )

    def _axis(self, bench: Bench, own: Floats, slack: float) -> None:
        note = bench.notebook
        if note.get("softmax.rows_normalised"):
            note.write(softmax__axis="keys")
            return
        sizes = bench.sizes
        for name, axes, size in (
            ("queries", (2,), sizes.queries),
            ("heads", (1,), sizes.heads),
            ("batch", (0,), sizes.batch),
            ("queries-and-keys", (2, 3), sizes.queries),
        ):
            sums = own.sum(axis=axes)
            # Sums of 1 along another axis are no accident when there are many of them.
            if size > 1 and sums.size > 1 and float(np.max(np.abs(sums - 1.0))) <= slack:
                note.write(softmax__axis=name)
                return
        low, high = note.get("softmax.row_sum_min"), note.get("softmax.row_sum_max")
        if high - low <= slack * max(abs(high), abs(low)) and abs(high) > 0.0:
            note.write(softmax__axis="keys", softmax__factor=0.5 * (low + high))
            return
        note.write(softmax__axis="unknown")

    def _at_zero(self, bench: Bench, query: Floats, key: Floats) -> None:
        weights = bench.weights(np.zeros_like(query), key)
        hidden = weights <= 0.0
        bench.hides = bool(hidden.any())
        sizes = bench.sizes
        i, j = np.arange(sizes.queries)[:, None], np.arange(sizes.keys)[None, :]
        shapes = (j > i, j > i + sizes.keys - sizes.queries)
        causal = any(bool((hidden == shape).all()) and bool(shape.any()) for shape in shapes)
        bench.notebook.write(mask__always_causal=causal)

    def _witness(self, bench: Bench) -> None:
        sizes = bench.sizes
        shape = (sizes.batch, sizes.heads)
        query = np.zeros((*shape, sizes.queries, sizes.head_dim))
        query[..., 0] = np.arange(sizes.queries) + 1.0
        key = np.zeros((sizes.batch, sizes.kv_heads, sizes.keys, sizes.head_dim))
        key[..., 0] = np.arange(sizes.keys) / sizes.keys
        value = np.ones((sizes.batch, sizes.kv_heads, sizes.keys, sizes.value_dim))
        for fact in ("softmax.axis", "softmax.row_sum_min", "softmax.factor"):
            bench.witness(
                fact,
                "with every value 1, an output is the sum of its row of weights, which is 1 for "
                "a softmax over keys",
                query,
                key,
                value,
                seen="output[0, 0, :, 0]",
                expected=f"np.ones({sizes.queries})",
            )


def own_weights(whole: Floats) -> Floats:
    """Return the weights of each sample and head on its own values, ``(B, H, Q, K)``."""
    batch, heads = whole.shape[:2]
    return np.stack([[whole[b, h, :, b, h] for h in range(heads)] for b in range(batch)])


def _influence(bench: Bench, query: Floats, key: Floats) -> Floats:
    """Return how every value moves every output; where that is too much, without other heads."""
    count = key.shape[0] * key.shape[1] * key.shape[2]
    if count <= 256:
        return bench.influence(query, key)
    weights = bench.weights(query, key)
    batch, heads, queries, keys = weights.shape
    whole = np.zeros((batch, heads, queries, batch, heads, keys))
    for b in range(batch):
        for h in range(heads):
            whole[b, h, :, b, h] = weights[b, h]
    try:
        _look_elsewhere(bench, query, key, whole)
    except Refused as refusal:
        bench.refused("weights", "the same shapes with other values", refusal)
    return whole


def _look_elsewhere(bench: Bench, query: Floats, key: Floats, whole: Floats) -> None:
    """Add what one other sample and one other head give to the first."""
    sizes = bench.sizes
    shape = (sizes.batch, sizes.kv_heads, sizes.keys, sizes.value_dim)
    for b, h in {(sizes.batch - 1, 0), (0, sizes.heads - 1)} - {(0, 0)}:
        value = np.zeros(shape)
        value[b, h] = 1.0
        output = bench.subject.output(query, key, value)
        whole[0, 0, :, b, h] = output[0, 0, :, :1] / sizes.keys
