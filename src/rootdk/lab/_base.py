"""What an experiment is: a question, parameters, one to three methods, a table and a figure."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, cast, get_args

from rootdk._lib.errors import ArgumentError
from rootdk.lab._parameters import Parameter, parameters_of
from rootdk.lab._sketch import Sketch
from rootdk.lab._table import Table

__all__ = ["METHODS", "Context", "Experiment", "Method", "Records"]

Method = Literal["replay", "sample", "exact"]
METHODS: tuple[Method, ...] = get_args(Method)
"""Replay a documented generator, sample the same law cheaply, or compute without drawing."""

Records = Iterable[Mapping[str, object]]
"""Rows by the names of their columns; NumPy scalars and fractions become plain numbers."""


def _unheard(done: int, total: int, what: str) -> None:
    del done, total, what


@dataclass(frozen=True, kw_only=True)
class Context:
    """How a run is to be done. Nothing here but the seed may change a number.

    Attributes
    ----------
    seed : int
        Where all randomness of the run comes from.
    jobs : int
        How many processes a sweep may use; 1 for none but this one.
    cluster : str, optional
        Address of a Dask scheduler (``tcp://…``), or ``local``.
    folder : Path, optional
        Where a sweep keeps what it has, so that an interrupted one goes on from there.
    progress : callable
        Told how much of how much is done, and what comes next.
    """

    seed: int
    jobs: int = 1
    cluster: str | None = None
    folder: Path | None = None
    progress: Callable[[int, int, str], None] = _unheard


@dataclass(frozen=True, kw_only=True)
class Experiment(ABC):
    """One experiment with its parameters: a question that numbers answer.

    A subclass is a frozen dataclass whose fields are all ``parameter(...)``. It offers each
    method of ``METHODS`` of which it has a function of that name, ``(self, context) ->
    Records``. The first offered is the one that runs unless another is asked for. The same
    parameters, method and seed give the same table, bit for bit, save the ``timed`` columns.

    Attributes
    ----------
    name : str
        Name on the command line: words with hyphens between them.
    question : str
        What it asks, in one sentence that ends with a question mark.
    order : int
        Place among the experiments.
    columns : mapping of str to str
        What each column holds, with its unit; a ``*`` in the name stands for anything. A
        column that is not here is refused.
    tiny : mapping of str to object
        Parameters of a form so small that it runs in a test.
    default_seed : int
        The seed unless another is given.
    random : tuple of str
        The methods that draw random numbers; others have no seed.
    generator : str
        What draws them.
    timed : frozenset of str
        Columns measured on the machine: seconds, bytes at the peak. No two runs have them in
        common. The answer does not depend on them, and ``sketch`` draws also without them.
    packages : tuple of str
        Packages on whose version the numbers depend.
    needs : tuple of str
        Extras of rootdk without which it does not run.
    slow : bool
        Whether the default form takes longer than a few seconds.
    """

    name: ClassVar[str]
    question: ClassVar[str]
    order: ClassVar[int]
    columns: ClassVar[Mapping[str, str]]
    tiny: ClassVar[Mapping[str, object]] = {}
    default_seed: ClassVar[int] = 0
    random: ClassVar[tuple[Method, ...]] = ()
    generator: ClassVar[str] = "PCG64 (numpy.random.default_rng)"
    timed: ClassVar[frozenset[str]] = frozenset()
    packages: ClassVar[tuple[str, ...]] = ("numpy",)
    needs: ClassVar[tuple[str, ...]] = ()
    slow: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name, declared in self.parameters().items():
            object.__setattr__(self, name, declared.valid(getattr(self, name)))

    @abstractmethod
    def answer(self, table: Table) -> str:
        """Return the answer in one sentence, with its numbers from the table."""

    @abstractmethod
    def sketch(self, table: Table) -> Sketch:
        """Return the figure as data."""

    @classmethod
    def methods(cls) -> tuple[Method, ...]:
        """Return the methods offered, in the order of ``METHODS``."""
        return tuple(method for method in METHODS if hasattr(cls, method))

    @classmethod
    def parameters(cls) -> Mapping[str, Parameter]:
        """Return the parameters by name."""
        return _parameters(cls)

    @classmethod
    def with_parameters(cls, given: Mapping[str, object]) -> Self:
        """Return the experiment with these parameters, defaults for the others.

        Raises
        ------
        ArgumentError
            If there is no such parameter, or its value means nothing.
        """
        known = cls.parameters()
        for name in given:
            if name not in known:
                some = ", ".join(known) or "none, it has no parameters"
                raise ArgumentError(f"{cls.name} has no parameter {name!r}; expected {some}")
        return cls(**cast("dict[str, Any]", dict(given)))

    def table(self, method: Method, context: Context) -> Table:
        """Run one method and return its table.

        Raises
        ------
        ArgumentError
            If the method is not offered.
        """
        if method not in self.methods():
            raise ArgumentError.unexpected(
                "method", method, f"one of {', '.join(self.methods())}, which {self.name} offers"
            )
        made = Table.of(getattr(self, method)(context))
        for column in made.columns:
            if self.meaning(column) is None:
                raise TypeError(f"{self.name} says nothing of its column {column!r}")
        return made

    @classmethod
    def meaning(cls, column: str) -> str | None:
        """Return what a column holds; None if the experiment does not say."""
        found = (says for name, says in cls.columns.items() if fnmatchcase(column, name))
        return next(found, None)

    def settings(self) -> dict[str, Any]:
        """Return the parameters and their values."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


@cache
def _parameters(experiment: type[Experiment]) -> Mapping[str, Parameter]:
    return parameters_of(experiment)
