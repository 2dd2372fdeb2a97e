"""Many tasks of one function: in this process, in several, or on a Dask cluster.

Every task has a seed of its own, spawned from that of the sweep by its place in the list, and
computes without threads of BLAS; so neither the number of workers nor their order changes a bit.

A killed worker costs a retry on a cluster: the scheduler gives its tasks to another worker (up to
``distributed.scheduler.allowed-failures`` times), and a failed task is tried again (``RETRIES``).
Without a cluster joblib ends the sweep when a process is killed; what was finished is on disk by
then, and the same call goes on from there.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rootdk._lib.errors import ArgumentError, SweepError
from rootdk._lib.extras import require
from rootdk.lab._base import Context
from rootdk.lab._kept import Kept, Record, Task

__all__ = ["RETRIES", "sweep"]

RETRIES = 2
"""How often Dask tries a task that failed once more."""

LOCAL = "local"
SUBFOLDER = "sweep"
CONNECT_SECONDS = 10
NO_DASHBOARD = ":0"
"""Any free port: the usual one may be taken, and None takes it all the same."""


def sweep(
    function: Callable[..., Any],
    tasks: Sequence[Mapping[str, object]],
    context: Context,
    *,
    packages: tuple[str, ...] = ("numpy",),
) -> list[Record]:
    """Call a function once for each task, and return all records in the order of the tasks.

    Parameters
    ----------
    function : callable
        ``(rng, **parameters)`` returns an iterable of records. It is a function of a module.
        For the same bits everywhere it leaves products of matrices to ``numpy.einsum``, or
        takes the threads from the library that it uses.
    tasks : sequence of mappings
        Parameters of each call: plain values by name.
    context : Context
        Seed, jobs, cluster, folder for finished tasks, progress.
    packages : tuple of str
        Packages on whose version the records depend.

    Returns
    -------
    list of dict
        Records in plain values.

    Raises
    ------
    ArgumentError
        If there is no such cluster.
    SweepError
        If a worker died, and no other could take over.

    Examples
    --------
    >>> def draw(rng, *, size):
    ...     yield {"size": size, "first": rng.integers(10)}
    >>> first = sweep(draw, [{"size": 1}, {"size": 2}], Context(seed=0))
    >>> first == sweep(draw, [{"size": 1}, {"size": 2}], Context(seed=0))
    True
    """
    seeds = np.random.SeedSequence(context.seed).spawn(len(tasks))
    todo = [
        Task(function=function, parameters=parameters, seed=seed)
        for parameters, seed in zip(tasks, seeds, strict=True)
    ]
    folder = None if context.folder is None else context.folder / SUBFOLDER
    kept = Kept(folder=folder, packages=packages)
    held = {place: kept.read(task) for place, task in enumerate(todo)}
    found = {place: records for place, records in held.items() if records is not None}
    missing = [place for place, records in held.items() if records is None]
    context.progress(len(found), len(todo), "")
    for place, records in _results(todo, missing, context, kept):
        kept.write(todo[place], records)
        found[place] = records
        context.progress(len(found), len(todo), _named(todo[place].parameters))
    return [record for place in range(len(todo)) for record in found[place]]


def _results(
    tasks: Sequence[Task], places: Sequence[int], context: Context, kept: Kept
) -> Iterator[tuple[int, list[Record]]]:
    """Yield place and records of each task as it ends."""
    if not places:
        return
    if context.jobs == 1 and context.cluster is None:
        yield from (_run(place, tasks[place]) for place in places)
        return
    joblib = require("joblib", extra="lab", purpose="for a sweep in several processes")
    calls = [joblib.delayed(_run)(place, tasks[place]) for place in places]
    with _workers(joblib, context) as lost:
        try:
            parallel = joblib.Parallel(return_as="generator_unordered", batch_size=1)
            yield from parallel(calls)
        except lost as error:
            raise SweepError(
                f"a worker was killed, or ran out of memory ({type(error).__name__}); {kept.tell()}"
            ) from error


def _run(place: int, task: Task) -> tuple[int, list[Record]]:
    return place, task.run()


Lost = tuple[type[BaseException], ...]


@contextlib.contextmanager
def _workers(joblib: Any, context: Context) -> Iterator[Lost]:
    """Have joblib use processes here, or a Dask cluster; yield what tells that one was lost."""
    if context.cluster is None:
        broken = joblib.externals.loky.process_executor.BrokenProcessPool
        with joblib.parallel_config("loky", n_jobs=context.jobs, inner_max_num_threads=1):
            yield (broken,)
        return
    distributed = require("distributed", extra="cluster", purpose="for a sweep on a cluster")
    with contextlib.ExitStack() as stack:
        where: Any = context.cluster
        if where == LOCAL:
            where = stack.enter_context(
                distributed.LocalCluster(
                    n_workers=context.jobs, threads_per_worker=1, dashboard_address=NO_DASHBOARD
                )
            )
        client = stack.enter_context(_connected(distributed, where))
        stack.enter_context(joblib.parallel_config("dask", client=client, retries=RETRIES))
        yield distributed.KilledWorker, distributed.comm.CommClosedError


def _connected(distributed: Any, where: Any) -> Any:
    try:
        return distributed.Client(where, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        reason = str(error)
    # A client that never connected closes when it is collected: now, while its loop still
    # turns (and out of the handler, whose error holds it), or at exit after a long wait.
    gc.collect()
    raise ArgumentError(
        f"cluster is {where!r}; expected {LOCAL}, or the address of a running Dask scheduler "
        f"({reason})"
    )


def _named(parameters: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in parameters.items())
