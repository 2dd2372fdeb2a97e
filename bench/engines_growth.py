"""Processor seconds and peak memory by number of keys: of a call, measured, and materialised.

Run by ``bench/engines.py --growth``. Each way has a process of its own, which goes from the
shortest to the longest, so that none finds memory that another has left; Linux only.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch.nn.functional as F
from engines_timing import SPREAD, arrays, load_compiled, materialised, resident, seconds

from rootdk import measure
from rootdk.lab import Line, Panel, Sketch
from rootdk.plots import draw, write

LENGTHS = [2**power for power in range(8, 17)]

LARGEST_MATRIX = 2 * 2**30
"""Bytes up to which a matrix of scores is materialised."""

LEAST_PEAK = 0.1
"""MiB below which a peak is not told from nothing."""

WAYS: Mapping[str, Callable[..., Any]] = {
    "materialised": lambda q, k, v: materialised(q, k),
    "one call": F.scaled_dot_product_attention,
    "every quantity": measure,
    "spread": lambda q, k, v: measure(q, k, quantities=SPREAD),
}

MOST_REPEATS, ENOUGH = 7, 1.0
"""A call is repeated so often, or until so many seconds have gone."""

_COLORS = dict(zip(WAYS, (1, 6, 0, 2), strict=True))


class Grown(dict[str, dict[int, tuple[float, float]]]):
    """Processor seconds (of all threads) and peak MiB above the inputs, by way and length."""


def fits(way: str, length: int) -> bool:
    return way != "materialised" or 4 * length**2 <= LARGEST_MATRIX


def grown(lengths: Sequence[int]) -> Grown:
    return Grown({way: in_a_process(way, lengths) for way in WAYS})


def in_a_process(way: str, lengths: Sequence[int]) -> dict[int, tuple[float, float]]:
    possible = [str(length) for length in lengths if fits(way, length)]
    # Freed memory of more than 1 MiB goes back at once, so that none hides in the next peak.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(2**20)}
    command = [sys.executable, __file__, way, *possible]
    out = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found = json.loads(out.stdout.splitlines()[-1])
    return {int(length): (taken, peak) for length, (taken, peak) in found.items()}


def measured(way: str, lengths: Sequence[int]) -> dict[int, tuple[float, float]]:
    """In this process, after compiled code is loaded and a first call."""
    call, found = WAYS[way], {}
    load_compiled()
    call(*arrays(2048, 1))
    for length in lengths:
        inputs = arrays(length, 1)
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
        before = resident("VmRSS")
        taken: list[float] = []
        while len(taken) < MOST_REPEATS and sum(taken) < ENOUGH:
            taken.append(seconds(lambda inputs=inputs: call(*inputs))[1])
        found[length] = statistics.median(taken), max(resident("VmHWM") - before, 0.0)
    return found


def table(found: Grown) -> str:
    lengths = list(found["one call"])
    lines = [f"| keys | {' | '.join(f'{way}, s | MiB' for way in WAYS)} |"]
    lines.append("|---" * (2 * len(WAYS) + 1) + "|")
    for length in lengths:
        cells = [str(length)]
        for way in WAYS:
            if length in found[way]:
                taken, peak = found[way][length]
                cells += [f"{taken:.2g}" if taken < 10 else f"{taken:.0f}", f"{peak:.1f}"]
            else:
                cells += ["skipped", f"{4 * length**2 / 2**20:.0f} a matrix"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def plot(found: Grown, path: Path) -> None:
    """Draw both by length, each line named at its end."""
    titles = ("processor seconds", "peak memory above the inputs, MiB")
    panels = tuple(
        Panel(
            title=title,
            x_label="keys (and queries)",
            y_label=label,
            marks=tuple(line(found[way], way, which) for way in WAYS),
            x_log=2,
            y_log=10,
        )
        for which, (title, label) in enumerate(zip(("Time", "Memory"), titles, strict=True))
    )
    title = "What do one call, and looking into it, cost as the number of keys grows?"
    figure = draw(Sketch(title=title, panels=panels))
    for axes in figure.axes:
        axes.set_xticks(axes.get_xticks()[::2])  # all of them would touch
        # Its line ends before the others, which would run through its name.
        name = next(text for text in axes.texts if text.get_text() == "materialised")
        name.set(ha="right", position=(-8.0, 3.0))
    write(figure, path)


def line(points: dict[int, tuple[float, float]], way: str, which: int) -> Line:
    """Times or peaks; a peak of less than pages that a process takes anyway is a gap."""
    heights = [each[which] for each in points.values()]
    return Line(
        label=way,
        x=tuple(map(float, points)),
        y=tuple(None if which and height < LEAST_PEAK else height for height in heights),
        color=_COLORS[way],
        markers=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("lengths", type=int, nargs="+")
    options = parser.parse_args()
    print(json.dumps(measured(options.way, options.lengths)))


if __name__ == "__main__":
    main()
