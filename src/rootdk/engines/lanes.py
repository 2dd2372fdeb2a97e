"""Threads that work side by side through the library of the arrays, without compiled code.

Libraries share the work of one operation among threads, and wait for all of them at its end.
Where a few rows at a time go through twenty operations, it is quicker to let each thread take
rows of its own, and every operation have one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from rootdk._lib.arrays import is_torch
from rootdk.engines.call import Call, isolated
from rootdk.engines.kernels import Kernels, kernels_of
from rootdk.engines.onethread import OneThreadKernels
from rootdk.engines.workers import ALONE, Workers, available, hired_beside

MOST = 4
"""Threads beyond which they wait for the interpreter."""

WORTH = 2**24
"""Scores of a call from which on threads of our own are worth hiring."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Lanes:
    """How many there are, and the map that runs on them, in order.

    While it runs, torch's number of threads is that of each lane; afterwards it is what it
    was. The number belongs to a thread, but one that first calls torch in the meantime takes
    it over.
    """

    call: Call
    workers: Workers
    each: int

    @property
    def count(self) -> int:
        """How many lanes there are."""
        return self.workers.threads

    @property
    def kernels(self) -> Kernels:
        """What computes in each."""
        query = self.call.query
        if is_torch(query) and query.device.type == "cpu" and self.each == 1:
            return OneThreadKernels()
        return kernels_of(query)

    @property
    def alone(self) -> Lanes:
        """The thread that asks, and no other; its operations are shared as the library likes."""
        return replace(self, workers=ALONE)

    def map(self, work: Callable[[Any], Any], tasks: list[Any]) -> Iterable[Any]:
        """Return the outcomes of tasks, in order."""
        if self.count == 1 or len(tasks) < 2:
            return map(work, tasks)
        import torch

        def in_lane(task: Any) -> Any:
            torch.get_num_threads()  # what a new thread is told before it asked, it forgets
            torch.set_num_threads(self.each)
            with isolated(self.call):
                return work(task)

        before = torch.get_num_threads()
        try:
            return self.workers.map(in_lane, tasks)
        finally:
            torch.set_num_threads(before)


@contextmanager
def lanes_for(call: Call) -> Iterator[Lanes]:
    """Yield the lanes for a call: one, and nothing changed, where more would gain nothing."""
    threads = available()
    if (
        threads == 1
        or call.scores < WORTH
        or call.bias is not None
        or call.softcap is not None
        or not is_torch(call.query)
        or call.query.device.type != "cpu"
    ):
        yield Lanes(call=call, workers=ALONE, each=threads)
        return
    with hired_beside(min(threads, MOST)) as workers:
        yield Lanes(call=call, workers=workers, each=max(threads // workers.threads, 1))
