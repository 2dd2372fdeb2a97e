"""What measuring an attention call costs beside the call itself.

    python bench/engines.py                     # the table
    python bench/engines.py --growth [--plot FILE]  # time and memory from 256 to 65536 keys
    python bench/engines.py --plan              # is the engine chosen the quickest?
    python bench/engines.py --profile           # where the time of one call goes
    python bench/engines.py --plan --no-numba   # either, as if Numba were not installed

Ratios are medians over repeats in which everything takes its turn, to the median of one
`scaled_dot_product_attention` of the same inputs in the same run. `cpu` is the ratio of
processor time over all threads, which other work on the machine moves less than `wall`.
Compiled code is loaded beforehand.
"""

from __future__ import annotations

import argparse
import os
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import engines_growth
import engines_plan
import torch
import torch.nn.functional as F
from engines_timing import SPREAD, arrays, interleaved, load_compiled, materialised

from rootdk import measure
from rootdk.engines import workers

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
                ("spread, row spread, without Numba", linear[0], False,
                 lambda: plain(q, k, quantities=SPREAD)),
                ("the same, causal", linear[1], True,
                 lambda: plain(q, k, quantities=SPREAD, **causal)),
                ("every quantity, without Numba", 1.5, False,
                 lambda: plain(q, k, v, engine="blocked")),
                ("the same, causal", 1.5, True,
                 lambda: plain(q, k, v, engine="blocked", **causal)),
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


def profile(length: int, heads: int, repeats: int) -> None:
    """Processor seconds of the blocked engine by what is asked of it, each beside one call's."""
    q, k, v = arrays(length, heads)
    wanted: list[list[str]] = [["max_score"]]
    for more in (["row_spread"], ["score_histogram"], [*SOFTMAX, "jacobian_norm", "max_weight"]):
        wanted.append(wanted[-1] + more)
    out = torch.empty(256, length)

    def products() -> None:
        for head in range(heads):
            for at in range(0, length - 255, 256):
                torch.matmul(q[0, head, at : at + 256], k[0, head].mT, out=out)

    calls = {
        "one call": lambda: F.scaled_dot_product_attention(q, k, v),
        "torch's products alone, 256 rows at a time": products,
    }
    for names in wanted:
        words = f"{'+ ' if len(names) > 1 else ''}{names[-1]}"
        calls[words] = lambda names=names: measure(q, k, quantities=names, engine="blocked")
    calls["every quantity"] = lambda: measure(q, k, v, engine="blocked")
    taken = interleaved(calls, repeats)
    print("| what | seconds of processor | to one call |\n|---|---|---|")
    for name, (_, cpu) in taken.items():
        print(f"| {name} | {cpu:.4f} | {cpu / taken['one call'][1]:.3f} |")


def setting(heads: int) -> str:
    return (
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, float32, {heads} heads, "
        f"head_dim 64, Numba {'there' if workers.is_installed() else 'absent'}, "
        f"load {os.getloadavg()[0]:.1f}"
    )


def grow(path: Path | None) -> None:
    found = engines_growth.grown(engines_growth.LENGTHS)
    print(setting(1))
    print(engines_growth.table(found))
    limit = engines_growth.LARGEST_MATRIX / 2**30
    print(f"skipped: a matrix of scores would take more than {limit:g} GiB, and three are needed")
    if path is not None:
        engines_growth.plot(found, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--lengths", type=int, nargs="+", default=[4096, 16384])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="of the growth, .svg or .png")
    parser.add_argument("--plan", action="store_true")
    parser.add_argument("--least", type=float, default=1.5, help="ratio from which --plan prints")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--no-numba", action="store_true", help="with --plan or --profile")
    options = parser.parse_args()
    with without_numba() if options.no_numba else nullcontext():
        report(options)


def report(options: argparse.Namespace) -> None:
    load_compiled()
    if options.profile:
        print(setting(options.heads))
        profile(options.lengths[0], options.heads, options.repeats)
    elif options.plan:
        print(f"{engines_plan.SETTING}, {torch.get_num_threads()} threads")
        engines_plan.table(options.repeats, options.least)
    elif options.growth:
        grow(options.plot)
    else:
        print(setting(options.heads))
        print("| what | keys | seconds | wall | cpu | target |\n|---|---|---|---|---|---|")
        for length in options.lengths:
            table(length, options.heads, options.repeats, slow=length <= 4096)
        if not options.no_memory:
            _, peak = engines_growth.in_a_process("every quantity", [65536])[65536]
            print(f"peak memory above inputs, every quantity, 65536 keys, one head: "
                  f"{peak:.1f} MiB (target ≤ 32)")  # fmt: skip
        print(setting(options.heads))


if __name__ == "__main__":
    main()
