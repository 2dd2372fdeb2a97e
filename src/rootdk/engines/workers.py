"""Threads for compiled code, and what it can reach."""

from __future__ import annotations

import importlib.util
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


ALONE = Workers(threads=1, map=map)
"""The thread that asks, and no other."""


@contextmanager
def hired(most: int | None = None) -> Iterator[Workers]:
    """Yield as many threads as torch, or the environment, has been told to use, up to a number.

    The one that asks is one of them; the others end with the context. They are Python's own,
    because what they run holds no lock: a pool of Numba's would stand beside torch's, and both
    would wait in loops that burn.
    """
    threads = available() if most is None else min(available(), most)
    if threads == 1:
        yield ALONE
        return
    with ThreadPoolExecutor(threads - 1, thread_name_prefix="rootdk") as pool:
        yield Workers(threads=threads, map=partial(_shared, pool, threads - 1))


def _shared(
    pool: ThreadPoolExecutor, others: int, work: Callable[[Any], Any], tasks: Iterable[Any]
) -> list[Any]:
    """Return the outcomes of tasks, each done by whoever is free first, in order."""
    waiting = list(tasks)
    found: list[Any] = [None] * len(waiting)
    places = deque(range(len(waiting)))

    def take() -> None:
        while True:
            try:
                place = places.popleft()
            except IndexError:
                return
            found[place] = work(waiting[place])

    helping = [pool.submit(take) for _ in range(min(others, len(waiting) - 1))]
    try:
        take()
    finally:
        wait(helping)
    for each in helping:
        each.result()
    return found


def available() -> int:
    """Return how many threads torch, or the environment, has been told to use."""
    if is_loaded("torch"):
        import torch

        return int(torch.get_num_threads())
    limit = os.environ.get("OMP_NUM_THREADS", "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return int(limit) if limit.isdecimal() and int(limit) else (cores or 1)
