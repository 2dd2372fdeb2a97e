"""Which key–value head each query head reads, when there are fewer of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from rootdk.identify.bench import Bench
from rootdk.identify.model import kv_heads_of
from rootdk.identify.probes._base import Probe
from rootdk.identify.subject import Floats, Refused
from rootdk.records import Sizes

__all__ = ["KvHeads"]

_HEADS, _KV_HEADS = 6, 2


class KvHeads(Probe):
    """The values of a head are one-hot in its number: an output names the head that it read."""

    name = "kv heads"
    order = 72
    fills = ("heads.kv_heads", "heads.kv_map", "heads.pattern", "heads.needs_argument")

    def run(self, bench: Bench) -> None:
        """Call with fewer heads of keys, with the argument that allows it if there is one."""
        layout, subject = bench.subject.layout, bench.subject
        if not layout.has("h") or bench.notebook.get("heads.swapped"):
            return
        sizes = bench.with_sizes(heads=_HEADS, kv_heads=_KV_HEADS)
        ways: list[dict[str, Any]] = [{}]
        if subject.takes("gqa"):
            ways.append({"gqa": True})
        for asked in ways:
            try:
                found = self._map(bench, sizes, asked)
            except Refused as refusal:
                bench.refused(self.name, f"{_HEADS} heads on {_KV_HEADS} of keys", refusal)
                continue
            bench.notebook.write(
                heads__kv_heads=_KV_HEADS,
                heads__kv_map=found,
                heads__pattern=_pattern(found),
            )
            if asked:
                bench.notebook.write(heads__needs_argument=subject.own_name("gqa"))
            self._witness(bench, sizes, asked)
            return

    def _map(self, bench: Bench, sizes: Sizes, asked: dict[str, Any]) -> tuple[int, ...]:
        query, key = bench.query_key(sizes, bench.amplitude)
        value = np.zeros((sizes.batch, sizes.kv_heads, sizes.keys, sizes.value_dim))
        for g in range(sizes.kv_heads):
            value[:, g, :, g] = 1.0
        shares = bench.subject.output(query, key, value, **asked)[:, :, :, : sizes.kv_heads]
        by_value = _heads_of(shares)
        by_key = self._by_key(bench, query, key, value, by_value, asked)
        return tuple(v if v == k else -1 for v, k in zip(by_value, by_key, strict=True))

    def _by_key(
        self,
        bench: Bench,
        query: Floats,
        key: Floats,
        value: Floats,
        otherwise: list[int],
        asked: dict[str, Any],
    ) -> list[int]:
        """Return the head whose keys make the weights: the one whose change moves an output."""
        value = bench.subject.rounded(bench.rng.standard_normal(value.shape))
        base = bench.subject.output(query, key, value, **asked)
        moved = []
        for g in range(key.shape[1]):
            other = key.copy()
            other[:, g] = -other[:, g]
            moved.append(np.abs(bench.subject.output(query, other, value, **asked) - base))
        sizes = np.stack([m.max(axis=(0, 2, 3)) for m in moved], axis=-1)
        if float(sizes.max()) == 0.0:
            return otherwise
        found = []
        for row in sizes:
            touched = np.flatnonzero(row > 1e-3 * sizes.max())
            found.append(int(touched[0]) if len(touched) == 1 else -1)
        return found

    def _witness(self, bench: Bench, sizes: Sizes, asked: dict[str, Any]) -> None:
        query = np.zeros((1, sizes.heads, sizes.queries, sizes.head_dim))
        key = np.zeros((1, sizes.kv_heads, sizes.keys, sizes.head_dim))
        value = np.zeros((1, sizes.kv_heads, sizes.keys, sizes.value_dim))
        value[:] = np.arange(sizes.kv_heads).reshape(1, -1, 1, 1)
        right = kv_heads_of(sizes.heads, sizes.kv_heads)
        bench.witness(
            "heads.kv_map",
            "every value of a key–value head is its number: an output names the head it read",
            query,
            key,
            value,
            seen="output[0, :, 0, 0]",
            expected=f"np.array({right})",
            asked=asked,
        )


def _heads_of(shares: Floats) -> list[int]:
    """Return the key–value head of each query head, −1 for a mixture."""
    low, high = shares.min(axis=(0, 2)), shares.max(axis=(0, 2))
    found = []
    for h in range(shares.shape[1]):
        best = int(np.argmax(high[h]))
        rest = np.delete(high[h], best)
        whole = low[h, best] > 1e-3 and float(np.max(np.abs(rest), initial=0.0)) < 1e-3
        found.append(best if whole else -1)
    return found


def _pattern(found: tuple[int, ...]) -> str:
    for name in ("repeated", "tiled"):
        if list(found) == kv_heads_of(_HEADS, _KV_HEADS, name):
            return name
    return "stuck" if len(set(found)) == 1 and found[0] >= 0 else "other"
