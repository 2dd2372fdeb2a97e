"""How long an identification takes: wall and CPU seconds, and the number of calls.

``python bench/identify.py`` prints one line a function, the median of some runs after one that
warms up (imports, first calls). The claim: a NumPy or torch function takes under 3 s of wall
clock on two cores. A busy machine shows in the difference of wall and CPU seconds.
"""

import argparse
import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from rootdk import identify
from rootdk.identify import named_targets


def in_numpy(query, key, value, mask=None, bias=None, is_causal=False, scale=None):
    """A NumPy function with the usual arguments."""
    scores = query @ key.swapaxes(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if bias is not None:
        scores = scores + bias
    visible = np.ones(scores.shape[-2:], bool) if mask is None else mask
    if is_causal:
        visible = visible & np.tri(*scores.shape[-2:], dtype=bool)
    scores = np.where(visible, scores, np.float32(-1e30))
    terms = np.exp(scores - scores.max(-1, keepdims=True))
    return terms / terms.sum(-1, keepdims=True) @ value


def in_torch(query, key, value, attn_mask=None, scale=None):
    """A torch function with the usual arguments."""
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = query @ key.mT * scale
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -1e30)
    return scores.softmax(-1) @ value


def measured(function: Any, runs: int) -> tuple[float, float, int]:
    """Return median wall seconds, median CPU seconds, and calls."""
    identify(function)
    walls, cpus, calls = [], [], 0
    for _ in range(runs):
        wall, cpu = time.perf_counter(), time.process_time()
        sheet = identify(function)
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
        calls = sheet.behaviour.call.calls
    return statistics.median(walls), statistics.median(cpus), calls


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--all", action="store_true", help="JAX and flex_attention too")
    given = parser.parse_args()
    targets: dict[str, Callable[[], Any]] = {
        "NumPy function": lambda: in_numpy,
        "torch function": lambda: in_torch,
    }
    named = named_targets()
    slow = ("torch.flex_attention", "jax.nn.dot_product_attention")
    for name in (
        "torch.sdpa",
        "torch.sdpa.math",
        "transformers.sdpa",
        *(slow if given.all else ()),
    ):
        targets[name] = named[name]
    print(f"{'function':32} {'wall s':>8} {'CPU s':>8} {'calls':>6}")
    for name, make in targets.items():
        wall, cpu, calls = measured(make(), given.runs)
        print(f"{name:32} {wall:8.2f} {cpu:8.2f} {calls:6d}")


if __name__ == "__main__":
    main()
