"""What the benches of the engines share: the inputs, the clock, and what is done without rootdk."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from rootdk.engines import workers

SPREAD = ["spread", "row_spread"]


def arrays(length: int, heads: int) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(1, heads, length, 64) for _ in range(3)]


def load_compiled() -> None:
    """Load compiled code, as rootdk does by itself once a process has measured enough."""
    if workers.is_installed():
        import rootdk.engines._numba.rows  # noqa: F401


def materialised(query: torch.Tensor, key: torch.Tensor) -> None:
    """What is done without rootdk: the whole matrix, then reductions."""
    scores = query @ key.mT / query.shape[-1] ** 0.5
    scores.std(), scores.amax()
    weights = scores.softmax(-1)
    torch.special.entr(weights).sum(-1).mean(), weights.amax(-1).mean(), weights.square().sum(-1)


def seconds(call: Callable[[], Any]) -> tuple[float, float]:
    """Wall and processor seconds, the latter over all threads."""
    start = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - start[0], time.process_time() - start[1]


def interleaved(calls: dict[str, Callable[[], Any]], repeats: int) -> dict[str, tuple[float, ...]]:
    """Median wall and processor seconds of each."""
    for call in calls.values():
        call()
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            taken[name].append(seconds(call))
    return {
        name: tuple(map(statistics.median, zip(*each, strict=True))) for name, each in taken.items()
    }


def resident(field: str) -> float:
    """A size of this process, in MiB; Linux only."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{field}:"))
