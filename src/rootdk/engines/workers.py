"""Threads for compiled code, and what it can reach."""

from __future__ import annotations

import importlib.util
import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from rootdk._lib.arrays import Array, float_info, is_torch, to_numpy
from rootdk._lib.extras import is_loaded
from rootdk.engines.team import team


@cache
def is_installed() -> bool:
    """Tell whether Numba is there."""
    return importlib.util.find_spec("numba") is not None


def in_reach(array: Array) -> bool:
    """Tell whether compiled code can read an array: one in main memory, with Numba installed."""
    return is_installed() and (not is_torch(array) or array.device.type == "cpu")


def float32_at_least(array: Array) -> Any:
    """Return an array as NumPy, half types as float32; the same memory otherwise."""
    values = to_numpy(array)
    if float_info(values).bits == 16:
        values = values.astype(np.float32)
    # A copy only where an element does not begin where its size asks for, or its bytes are turned.
    return np.require(values, dtype=values.dtype.newbyteorder("="), requirements="A")


@dataclass(frozen=True, kw_only=True)
class Workers:
    """How many threads there are, and the map that runs on them, in order."""

    threads: int
    map: Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]

    def shares(self, count: int) -> Iterable[tuple[int, int]]:
        """Return where the share of each thread in so many things begins and ends."""
        parts = min(self.threads, count) or 1
        return itertools.pairwise(count * part // parts for part in range(parts + 1))


ALONE = Workers(threads=1, map=map)
"""The thread that asks, and no other."""


OWN_WORTH = 16e6
"""Nanoseconds of work from which threads of our own are worth hiring.

After an operation of torch its threads wait in a loop for some ten milliseconds, and one of
ours would share a core with one of them.
"""

TEAM_WORTH = 1e6
"""The same where torch's own threads do it."""


@contextmanager
def hired(nanoseconds: float) -> Iterator[Workers]:
    """Yield as many threads for compiled code as torch, or the environment, has been told to use.

    The one that asks is one of them, and the only one where the work, which would take it so
    many nanoseconds, is not worth others. Those are torch's where they can be reached, and Python's
    own otherwise: a pool of Numba's would stand beside torch's, and both wait in loops that burn.
    """
    run, threads = team(), available()
    if nanoseconds < (OWN_WORTH if run is None else TEAM_WORTH):
        yield ALONE
    elif run is None or threads == 1:
        with hired_beside(threads) as workers:
            yield workers
    else:
        yield Workers(threads=threads, map=partial(_shared, partial(run, threads)))


@contextmanager
def hired_beside(threads: int) -> Iterator[Workers]:
    """Yield so many threads; all but the asking one are Python's own, and end with the context."""
    if threads == 1:
        yield ALONE
        return
    with ThreadPoolExecutor(threads - 1, thread_name_prefix="rootdk") as pool:
        yield Workers(threads=threads, map=partial(_shared, partial(_beside, pool, threads - 1)))


def _beside(pool: ThreadPoolExecutor, others: int, work: Callable[[], None]) -> None:
    """Run work on the thread that asks and on others; raise the first exception at the end."""
    helping = [pool.submit(work) for _ in range(others)]
    try:
        work()
    finally:
        wait(helping)
    for each in helping:
        each.result()


_NOT_DONE: Any = object()


def _shared(
    everywhere: Callable[[Callable[[], None]], None],
    work: Callable[[Any], Any],
    tasks: Iterable[Any],
) -> list[Any]:
    """Return the outcomes of tasks, each done by whoever is free first, in order."""
    waiting = list(tasks)
    if len(waiting) < 2:
        return list(map(work, waiting))
    found: list[Any] = [_NOT_DONE] * len(waiting)
    places = deque(range(len(waiting)))

    def take() -> None:
        while True:
            try:
                place = places.popleft()
            except IndexError:
                return
            try:
                found[place] = work(waiting[place])
            except BaseException:
                places.clear()  # nobody begins what will not be asked for
                raise

    everywhere(take)
    for place, outcome in enumerate(found):
        if outcome is _NOT_DONE:  # an interrupt came between two of its steps
            found[place] = work(waiting[place])
    return found


def available() -> int:
    """Return how many threads torch, or the environment, has been told to use."""
    if is_loaded("torch"):
        import torch

        return int(torch.get_num_threads())
    limit = os.environ.get("OMP_NUM_THREADS", "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return int(limit) if limit.isdecimal() and int(limit) else (cores or 1)
