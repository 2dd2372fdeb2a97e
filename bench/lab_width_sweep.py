"""What the main table of the lab costs: sampled and exact, beside drawing every key.

    python bench/lab_width_sweep.py

The loop is the documented one: for each width, queries and 12 keys each from one generator, all
scores, then spread, largest weight, entropy and shares of rows, raw and scaled. `sample` draws
scores in place of keys and computes the same. Seconds of processor time, each the least of several
repeats in which both take their turn in this run; the ratio is that of the loop to the method.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from rootdk.lab._base import Context
from rootdk.lab.experiments.width_sweep import WidthSweep

LEAST_RATIO = 100.0
AT = 1024


def seconds(method: Callable[[Context], object], context: Context) -> float:
    start = time.process_time()
    list(method(context))  # type: ignore[call-overload]
    return time.process_time() - start


def least_seconds(sweep: WidthSweep, repeats: int) -> dict[str, float]:
    context = Context(seed=sweep.default_seed)
    methods = {"loop": sweep.replay, "sample": sweep.sample, "exact": sweep.exact}
    taken: dict[str, list[float]] = {name: [] for name in methods}
    for _ in range(repeats + 1):
        for name, method in methods.items():
            taken[name].append(seconds(method, context))
    return {name: min(times[1:]) for name, times in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--widths", type=int, nargs="+", default=[4, 16, 64, 256, 1024])
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    print("head_dim    loop s  sample s    ratio   exact s    ratio")
    for width in given.widths:
        taken = least_seconds(WidthSweep(widths=(width,)), given.repeats)
        sampled, exact = (taken["loop"] / taken[name] for name in ("sample", "exact"))
        print(
            f"{width:>8}  {taken['loop']:>8.4f}  {taken['sample']:>8.4f}  {sampled:>7.1f}  "
            f"{taken['exact']:>8.4f}  {exact:>7.2f}"
        )
        if width == AT and sampled < LEAST_RATIO:
            raise SystemExit(
                f"sampling is {sampled:.0f} times as fast; {LEAST_RATIO:g} was the aim"
            )


if __name__ == "__main__":
    main()
