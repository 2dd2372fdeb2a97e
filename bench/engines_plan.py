"""Whether the engine that is chosen is the quickest one, over sizes, masks and wanted quantities.

Run by ``bench/engines.py --plan``. Times are processor seconds, over all threads.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from engines_timing import SPREAD, arrays, interleaved

from rootdk import measure
from rootdk._lib.errors import ArgumentError
from rootdk.engines.plan import ENGINES
from rootdk.stats import Summary

SETTING = "torch, float32, head_dim 64"

SIZES = ((4, 64), (4, 256), (4, 1024), (2, 4096))
"""Heads and keys."""

WANTED: Mapping[str, Mapping[str, Any]] = {
    "spread": {"quantities": SPREAD},
    "entropy": {"quantities": ["entropy_nats"]},
    "entropy, effective keys 2": {"quantities": ["entropy_nats", "effective_keys_2"]},
    "largest weight": {"quantities": ["max_weight"]},
    "every quantity": {},
    "spread, 64 rows": {"quantities": SPREAD, "rows": 64},
    "entropy, 64 rows": {"quantities": ["entropy_nats"], "rows": 64},
}


def masks(length: int) -> dict[str, dict[str, Any]]:
    shown = torch.arange(length) < length - length // 5
    return {
        "none": {},
        "causal": {"causal": "top_left"},
        "window": {"causal": "top_left", "window": (length // 16, None)},
        "segments": {"segments": [0, length // 4, length // 2, length]},
        "padding": {"mask": shown.expand(1, 1, 1, length)},
        "spelt out": {"mask": torch.ones(length, length, dtype=torch.bool).tril()},
        "random": {"mask": torch.rand(length, length) < 0.5},
    }


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What was chosen for a call, and how long each engine that can measure it took."""

    call: str
    chosen: str
    seconds: Mapping[str, float]

    @property
    def quickest(self) -> str:
        return min(self.seconds, key=self.seconds.__getitem__)

    @property
    def ratio(self) -> float:
        return self.seconds[self.chosen] / self.seconds[self.quickest]

    @property
    def lost(self) -> float:
        """Seconds."""
        return self.seconds[self.chosen] - self.seconds[self.quickest]


def choices(repeats: int) -> Iterator[Choice]:
    for heads, length in SIZES:
        query, key, _ = arrays(length, heads)
        for (mask, hiding), (wanted, asked) in itertools.product(
            masks(length).items(), WANTED.items()
        ):
            options = {**hiding, **asked}
            chosen = engine_of(measure(query, key, **options))
            ways = possible(query, key, options)
            taken = interleaved(ways, repeats)
            yield Choice(
                call=f"{heads} × {length} | {mask} | {wanted}",
                chosen=chosen,
                seconds={name: each[1] for name, each in taken.items()},
            )


def possible(
    query: torch.Tensor, key: torch.Tensor, options: Mapping[str, Any]
) -> dict[str, Callable[[], Summary]]:
    """The engines that measure a call, but the reference, which is whole and in float64."""
    ways = {}
    for name in ENGINES:
        if name == "reference":
            continue

        def way(name: str = name) -> Summary:
            return measure(query, key, engine=name, **options)

        try:
            way()
        except ArgumentError:
            continue
        ways[name] = way
    return ways


def engine_of(summary: Summary) -> str:
    return summary.engine.partition(" ")[0]


def table(repeats: int, least: float) -> None:
    """Print the calls for which another engine takes less time, and the worst ratio of all."""
    print("| heads × keys | mask | wanted | chosen | seconds | quickest | seconds | ratio |")
    print("|---" * 8 + "|")
    found = list(choices(repeats))
    for choice in found:
        if choice.ratio >= least:
            chosen, quickest = choice.seconds[choice.chosen], choice.seconds[choice.quickest]
            print(
                f"| {choice.call} | {choice.chosen} | {chosen:.2g} | {choice.quickest} "
                f"| {quickest:.2g} | {choice.ratio:.2f} |"
            )
    worst = max(choice.ratio for choice in found)
    at_stake = max([choice.ratio for choice in found if choice.lost > 1e-3], default=1.0)
    print(f"{len(found)} calls; worst ratio {worst:.2f}, {at_stake:.2f} where over 1 ms is lost")
