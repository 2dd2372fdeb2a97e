"""What measuring an attention call costs beside the call itself.

    python bench/engines.py                     # the table
    python bench/engines.py --growth out.csv    # times from 1024 to 65536 keys, and a plot
    python bench/engines.py --profile           # where the time of one call goes

Ratios are medians over repeats in which everything takes its turn, to the median of one
`scaled_dot_product_attention` of the same inputs in the same run. `cpu` is the ratio of
processor time over all threads, which other work on the machine moves less than `wall`.
"""

from __future__ import annotations

import argparse
import cProfile
import csv
import json
import os
import pstats
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from rootdk import measure
from rootdk.engines import workers

SPREAD = ["spread", "row_spread"]
SOFTMAX = ["entropy_nats", "effective_keys", "effective_keys_2", "jacobian_trace"]
MONITOR = [*SPREAD, "entropy_nats", "effective_keys", "max_weight", "max_score", "jacobian_trace"]


@contextmanager
def without_numba() -> Any:
    installed = workers.is_installed
    workers.is_installed = lambda: False
    try:
        yield
    finally:
        workers.is_installed = installed


def plain(*arrays: Any, **options: Any) -> None:
    with without_numba():
        measure(*arrays, **options)


def materialised(query: torch.Tensor, key: torch.Tensor) -> None:
    """What is done without rootdk: the whole matrix, then reductions."""
    scores = query @ key.mT / query.shape[-1] ** 0.5
    scores.std(), scores.amax()
    weights = scores.softmax(-1)
    torch.special.entr(weights).sum(-1).mean(), weights.amax(-1).mean(), weights.square().sum(-1)


def seconds(call: Callable[[], Any]) -> tuple[float, float]:
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


def arrays(length: int, heads: int) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(1, heads, length, 64) for _ in range(3)]


def rows_of(length: int, heads: int, *, slow: bool) -> list[tuple[str, float | None, bool, Any]]:
    """What to time: name, target, whether causal, call."""
    q, k, v = arrays(length, heads)
    causal = {"causal": "top_left"}
    attend = F.scaled_dot_product_attention
    linear = (0.03, 0.15) if length <= 4096 else (0.008, 0.05)
    return [
        ("one call", None, False, lambda: attend(q, k, v)),
        ("one causal call", None, True, lambda: attend(q, k, v, is_causal=True)),
        ("spread, row spread", linear[0], False, lambda: measure(q, k, quantities=SPREAD)),
        ("the same, causal", linear[1], True, lambda: measure(q, k, quantities=SPREAD, **causal)),
        ("every quantity", 0.7, False, lambda: measure(q, k, v)),
        ("the same, causal", 0.7, True, lambda: measure(q, k, v, **causal)),
        ("monitor set, 64 rows a head", 0.03, False,
         lambda: measure(q, k, quantities=MONITOR, rows=64)),
        *(
            [
                ("entropy, effective keys: fused", 2.1, False,
                 lambda: measure(q, k, quantities=SOFTMAX, engine="fused")),
                ("the same, causal", 2.1, True,
                 lambda: measure(q, k, quantities=SOFTMAX, engine="fused", **causal)),
                ("every quantity, without Numba", 1.5, False,
                 lambda: plain(q, k, v, engine="blocked")),
                ("materialised", None, False, lambda: materialised(q, k)),
            ]
            if slow
            else []
        ),
    ]  # fmt: skip


def table(length: int, heads: int, repeats: int, *, slow: bool) -> None:
    rows = rows_of(length, heads, slow=slow)
    calls = {f"{at} {name}": call for at, (name, _, _, call) in enumerate(rows)}
    taken = interleaved(calls, repeats)
    of = dict(zip((False, True), list(taken.values())[:2], strict=True))
    for (name, target, causal, _), (wall, cpu) in zip(rows, taken.values(), strict=True):
        print(
            f"| {name} | {length} | {wall:.4f} | {wall / of[causal][0]:.3f} "
            f"| {cpu / of[causal][1]:.3f} | {'' if target is None else f'≤ {target}'} |",
            flush=True,
        )


def setting(heads: int) -> str:
    return (
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, float32, {heads} heads, "
        f"head_dim 64, Numba {'there' if workers.is_installed() else 'absent'}, "
        f"load {os.getloadavg()[0]:.1f}"
    )


def peak_mib(what: str, length: int) -> float:
    """Peak memory above the inputs and the loaded code, of a process of its own."""
    command = [sys.executable, __file__, "--child", what, str(length)]
    out = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(json.loads(out.stdout.splitlines()[-1]))


def child(what: str, length: int) -> None:
    calls: dict[str, Callable[..., Any]] = {"measure": measure, "materialised": materialised}
    small, inputs = arrays(2048, 1)[:2], arrays(length, 1)[:2]
    calls[what](*small)
    # Loading and compiling had a peak of their own: forget it.
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    calls[what](*inputs)
    print(json.dumps(resident("VmHWM") - before))


def resident(field: str) -> float:
    """A size of this process, in MiB; Linux only."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{field}:"))


def growth(path: Path, longest: int) -> None:
    """Write seconds by number of keys, one head."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    records, length = [], 1024
    while length <= longest:
        q, k, v = arrays(length, 1)
        calls = {
            "one call": lambda q=q, k=k, v=v: F.scaled_dot_product_attention(q, k, v),
            "every quantity": lambda q=q, k=k: measure(q, k),
            "spread": lambda q=q, k=k: measure(q, k, quantities=SPREAD),
        }
        # Scores, weights, and one more for what reductions hold.
        fits = 3 * 4 * length**2 < free
        if fits:
            calls["materialised"] = lambda q=q, k=k: materialised(q, k)
        taken = interleaved(calls, 3 if length < 32768 else 1)
        line = {"keys": length, **{name: f"{each[0]:.4f}" for name, each in taken.items()}}
        line.setdefault("materialised", f"does not fit: {3 * 4 * length**2 / 2**30:.0f} GiB")
        records.append(line)
        print(line, flush=True)
        length *= 2
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(records[0]))
        writer.writeheader()
        writer.writerows(records)
    plot(records, path.with_suffix(".png"))


def plot(records: list[dict[str, Any]], path: Path) -> None:
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        print("no plot: matplotlib is not installed")
        return
    axes = Figure(figsize=(6, 4), layout="constrained").subplots()
    for name in [name for name in records[0] if name != "keys"]:
        known = [(r["keys"], float(r[name])) for r in records if "fit" not in r[name]]
        axes.loglog(*zip(*known, strict=True), marker="o", label=name)
    axes.set(xlabel="keys (and queries), one head", ylabel="seconds")
    axes.legend()
    axes.figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--lengths", type=int, nargs="+", default=[4096, 16384])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--growth", type=Path, help="write times by length to this .csv")
    parser.add_argument("--longest", type=int, default=65536)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child[0], int(options.child[1]))
    elif options.profile:
        q, k, v = arrays(options.lengths[0], options.heads)
        measure(q, k, v)
        with cProfile.Profile() as profile:
            measure(q, k, v)
        pstats.Stats(profile).sort_stats("tottime").print_stats(15)
    elif options.growth:
        print(setting(1))
        growth(options.growth, options.longest)
    else:
        print(setting(options.heads))
        print("| what | keys | seconds | wall | cpu | target |\n|---|---|---|---|---|---|")
        for length in options.lengths:
            table(length, options.heads, options.repeats, slow=length <= 4096)
        if not options.no_memory:
            print(f"peak memory above inputs, every quantity, 65536 keys, one head: "
                  f"{peak_mib('measure', 65536):.1f} MiB (target ≤ 32)")  # fmt: skip
        print(setting(options.heads))


if __name__ == "__main__":
    main()
