"""Cost and error of measuring on a CUDA device, in bfloat16 and float32: under five minutes.

    python bench/gpu.py [--lengths 4096 16384] [--repeats 20]
    python bench/gpu.py --dry                  # a rehearsal on the CPU, of the same code

Largest scores come from flex_attention there, compiled at its first call for each shape. Prints,
for each engine and dtype, the time as a ratio to one `scaled_dot_product_attention`
of the same inputs, medians of interleaved repeats timed by events, and the largest
difference from float64 on a shorter call. Where there is no CUDA device it says so and
exits with status 2.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from rootdk import measure

SOFTMAX = ["entropy_nats", "effective_keys", "effective_keys_2", "jacobian_trace"]
SPREAD = ["spread", "row_spread"]
MONITOR = [*SOFTMAX, "max_weight", "max_score", "min_score"]


DEVICE = "cuda"
"""``--dry`` makes it "cpu"."""


def arrays(length: int, heads: int, dtype: torch.dtype, spread: float = 1.0) -> list[Any]:
    generator = torch.Generator(DEVICE).manual_seed(0)
    shape = (1, heads, length, 64)
    made = [torch.randn(shape, generator=generator, device=DEVICE) for _ in range(3)]
    return [(spread**0.5 * array).to(dtype) for array in made]


def milliseconds(call: Callable[[], Any]) -> float:
    if DEVICE == "cpu":
        begin = time.perf_counter()
        call()
        return 1e3 * (time.perf_counter() - begin)
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    call()
    stop.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(stop))


def interleaved(calls: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    for call in calls.values():
        call()
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            taken[name].append(milliseconds(call))
    return {name: statistics.median(each) for name, each in taken.items()}


def times(length: int, dtype: torch.dtype, repeats: int) -> None:
    q, k, v = arrays(length, 8, dtype)
    calls: dict[str, Callable[[], Any]] = {
        "one call": lambda: F.scaled_dot_product_attention(q, k, v),
        "spread, row spread": lambda: measure(q, k, quantities=SPREAD),
        "entropy, effective keys (chosen)": lambda: measure(q, k, quantities=SOFTMAX),
        "the same and largest scores, fused": lambda: measure(
            q, k, quantities=MONITOR, engine="fused"
        ),
        "64 sampled rows a head": lambda: measure(q, k, quantities=SOFTMAX, rows=64),
        "every quantity": lambda: measure(q, k, v),
    }
    before = 0
    if DEVICE == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    taken = interleaved(calls, repeats)
    for name, each in taken.items():
        print(f"| {name} | {dtype} | {length} | {each:.3f} | {each / taken['one call']:.3f} |")
    if DEVICE == "cpu":
        return
    peak = (torch.cuda.max_memory_allocated() - before) / 2**20
    print(f"peak memory above the inputs: {peak:.0f} MiB", flush=True)


def errors(dtype: torch.dtype, spread: float) -> None:
    q, k, _ = arrays(1024, 4, dtype, spread)
    exact = measure(q.cpu(), k.cpu(), quantities=[*MONITOR, *SPREAD], engine="reference")
    asked = {"fused": MONITOR, "blocked": [*MONITOR, *SPREAD], "linear": SPREAD}
    for engine, names in asked.items():
        try:
            found = measure(q, k, quantities=names, engine=engine)
        except ValueError as refused:
            print(f"| {engine} | {dtype} | {spread} | {refused} |")
            continue
        worst = {name: float(abs(found[name] - exact[name]).max()) for name in names}
        shown = ", ".join(f"{name} {error:.1e}" for name, error in worst.items())
        print(f"| {found.engine} | {dtype} | {spread} | {shown} |", flush=True)


def main() -> None:
    global DEVICE
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", type=int, nargs="+", default=[4096, 16384])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument(
        "--dry", action="store_true", help="the same, small, on the CPU: a rehearsal"
    )
    options = parser.parse_args()
    if options.dry:
        DEVICE, options.lengths, options.repeats = "cpu", [256], 2
    elif not torch.cuda.is_available():
        print("no CUDA device: nothing was measured", file=sys.stderr)
        sys.exit(2)
    name = "a rehearsal on the CPU" if options.dry else torch.cuda.get_device_name()
    print(f"torch {torch.__version__}, {name}, 8 heads, head_dim 64")
    print("| engine | dtype | spread | largest difference from float64 |\n|---|---|---|---|")
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        for spread in (1.0, 16.0):
            errors(dtype, spread)
    print("| what | dtype | keys | ms | ratio |\n|---|---|---|---|---|")
    for dtype in (torch.bfloat16, torch.float32):
        for length in options.lengths:
            times(length, dtype, options.repeats)


if __name__ == "__main__":
    main()
