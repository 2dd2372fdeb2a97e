"""Every experiment by walking the folder, one by its name, and running one."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import cache
from pathlib import Path

from rootdk._lib.discovery import subclasses
from rootdk._lib.errors import ArgumentError
from rootdk.lab._base import Context, Experiment, Method
from rootdk.lab._result import Result, result_of

__all__ = ["all_experiments", "experiment", "names", "run"]

PACKAGE = "rootdk.lab.experiments"
ENTRY_POINTS = "rootdk.lab"


@cache
def all_experiments() -> tuple[type[Experiment], ...]:
    """Return every experiment, of this package and of plug-ins, in their order."""
    kinds = subclasses(
        PACKAGE,
        Experiment,  # type: ignore[type-abstract]
        group=ENTRY_POINTS,
        key=lambda kind: kind.name,
    )
    return tuple(sorted(kinds, key=lambda kind: (kind.order, kind.name)))


def names() -> tuple[str, ...]:
    """Return the names of all experiments.

    Examples
    --------
    >>> "saturation-by-factor" in names()
    True
    """
    return tuple(kind.name for kind in all_experiments())


def experiment(name: str) -> type[Experiment]:
    """Return the experiment of this name.

    Raises
    ------
    ArgumentError
        If there is none; the message says what is close.
    """
    for kind in all_experiments():
        if kind.name == name.replace("_", "-"):
            return kind
    close = difflib.get_close_matches(name, names(), n=1, cutoff=0.4)
    hint = f"did you mean {close[0]}?" if close else "`rootdk lab list` shows them all"
    raise ArgumentError(f"there is no experiment {name!r}; {hint}")


def run(
    name: str,
    *,
    method: Method | None = None,
    seed: int | None = None,
    jobs: int = 1,
    cluster: str | None = None,
    folder: str | Path | None = None,
    progress: Callable[[int, int, str], None] | None = None,
    **parameters: object,
) -> Result:
    """Run an experiment.

    Parameters
    ----------
    name : str
        Which; ``names()`` has them all.
    method : {"replay", "sample", "exact"}, optional
        How; the first that it offers unless given.
    seed : int, optional
        Of all randomness; the experiment's own unless given.
    jobs : int
        How many processes a sweep may use. No number depends on it.
    cluster : str, optional
        Address of a Dask scheduler, or ``local``, in place of processes.
    folder : path, optional
        Where an interrupted sweep goes on from.
    progress : callable, optional
        Called with how much of how much is done, and what comes next.
    **parameters
        Of the experiment; ``experiment(name).parameters()`` has them with their defaults.

    Returns
    -------
    Result
        Table, settings, answer and figure.

    Raises
    ------
    ArgumentError
        If there is no such experiment, method or parameter, or a value means nothing.

    Examples
    --------
    >>> run("saturation-by-factor", scores=(1, 2, 3)).columns[:2]
    ('key', 'scores')
    """
    kind = experiment(name)
    made = kind.with_parameters(parameters)
    context = Context(
        seed=_whole("seed", kind.default_seed if seed is None else seed, least=0, most=2**63 - 1),
        jobs=_whole("jobs", jobs, least=1),
        cluster=cluster,
        folder=None if folder is None else _folder(folder),
        **({} if progress is None else {"progress": progress}),
    )
    return result_of(made, kind.methods()[0] if method is None else method, context)


def _folder(given: str | Path) -> Path:
    """Return a folder that is there, before anything is run for it."""
    folder = Path(given)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        expected = f"a folder, or a place where one can be made ({error.strerror})"
        raise ArgumentError.unexpected("folder", str(folder), expected) from None
    return folder


def _whole(name: str, value: object, *, least: int, most: int | None = None) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < least:
        raise ArgumentError.unexpected(name, value, f"a whole number from {least} up")
    if most is not None and int(value) > most:
        raise ArgumentError.unexpected(name, value, f"a whole number up to {most}")
    return int(value)
