"""The lab: experiments on the square root of head_dim, replayed, sampled and exact.

Each experiment is a question with parameters; running it gives a table, a figure and an answer
in one sentence. It is one file in ``rootdk.lab.experiments``. Besides ``run``, each is a
function of its own name: ``rootdk.lab.width_sweep(widths=(64, 128))``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rootdk.lab._base import METHODS, Context, Experiment, Method
from rootdk.lab._parameters import parameter
from rootdk.lab._registry import all_experiments, experiment, names, run
from rootdk.lab._result import Result
from rootdk.lab._sketch import Bars, Level, Line, Panel, Sketch
from rootdk.lab._table import Table

__all__ = [
    "METHODS",
    "Bars",
    "Context",
    "Experiment",
    "Level",
    "Line",
    "Method",
    "Panel",
    "Result",
    "Sketch",
    "Table",
    "all_experiments",
    "experiment",
    "names",
    "parameter",
    "run",
]


def __getattr__(name: str) -> Callable[..., Result]:
    if not name.startswith("_") and name.replace("_", "-") in names():
        return partial(run, name.replace("_", "-"))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *(name.replace("-", "_") for name in names())})
