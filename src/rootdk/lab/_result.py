"""What running an experiment gives: table, settings, answer, figure, and files of these."""

from __future__ import annotations

import csv
import importlib
import io
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rootdk import __version__
from rootdk._lib.extras import require
from rootdk.lab._base import Context, Experiment, Method
from rootdk.lab._sketch import Sketch
from rootdk.lab._table import Table

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas

__all__ = ["Result", "result_of"]

_PLOTS = "rootdk.plots"


@dataclass(frozen=True, kw_only=True, repr=False)
class Result:
    """One experiment, run once.

    Attributes
    ----------
    experiment : str
        Name of the experiment.
    question : str
        What it asks.
    method : str
        ``"replay"``, ``"sample"`` or ``"exact"``.
    settings : mapping
        All that the numbers depend on: ``parameters``, ``seed`` and ``generator`` (None where
        nothing is drawn), ``versions``.
    table : Table
        The rows by the names of their columns.
    answer : str
        The answer in one sentence.
    sketch : Sketch
        The figure as data.
    """

    experiment: str
    question: str
    method: Method
    settings: Mapping[str, Any]
    table: Table
    answer: str
    sketch: Sketch

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self.table.columns

    @property
    def rows(self) -> tuple[tuple[Any, ...], ...]:
        """One value for each column."""
        return self.table.rows

    @property
    def frame(self) -> pandas.DataFrame:
        """The table as a pandas frame (needs the ``lab`` extra)."""
        pd = require("pandas", extra="lab", purpose="for Result.frame")
        frame: pandas.DataFrame = pd.DataFrame(list(self.rows), columns=list(self.columns))
        return frame

    def figure(self) -> matplotlib.figure.Figure:
        """Return the figure, drawn with Matplotlib (needs the ``lab`` extra)."""
        figure: matplotlib.figure.Figure = importlib.import_module(_PLOTS).draw(self.sketch)
        return figure

    def document(self) -> dict[str, Any]:
        """Return the result as JSON holds it."""
        document = {
            "experiment": self.experiment,
            "method": self.method,
            "settings": self.settings,
            "columns": self.columns,
            "rows": self.rows,
            "answer": self.answer,
        }
        plain: dict[str, Any] = json.loads(json.dumps(document, allow_nan=False))
        return plain

    def json(self) -> str:
        """Return the result as JSON text, one row a line."""
        parts = self.document()
        rows = parts.pop("rows")
        answer = parts.pop("answer")
        head = json.dumps(parts, indent=2, ensure_ascii=False)[:-2]
        lines = ",\n".join(f"    {json.dumps(row, ensure_ascii=False)}" for row in rows)
        said = json.dumps(answer, ensure_ascii=False)
        return f'{head},\n  "rows": [\n{lines}\n  ],\n  "answer": {said}\n}}\n'

    def csv(self) -> str:
        """Return the table as CSV text; a cell that holds several values is a JSON list."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([_cell(value) for value in row] for row in self.rows)
        return text.getvalue()

    def save(self, folder: str | Path) -> tuple[Path, ...]:
        """Write table, settings and figure into a folder, and return the files.

        They are called after the experiment and the method: ``width-sweep-replay.csv``,
        ``.json``, ``.svg`` and ``.png``. The folder is made if it is not there. The figures
        need the ``lab`` extra.
        """
        stem = Path(folder) / f"{self.experiment}-{self.method}"
        stem.parent.mkdir(parents=True, exist_ok=True)
        texts = {".csv": self.csv(), ".json": self.json()}
        written = []
        for suffix, text in texts.items():
            written.append(stem.with_name(stem.name + suffix))
            written[-1].write_text(text, encoding="utf-8")
        figure = self.figure()
        for suffix in (".svg", ".png"):
            written.append(stem.with_name(stem.name + suffix))
            importlib.import_module(_PLOTS).write(figure, written[-1])
        return tuple(written)

    def __repr__(self) -> str:
        return (
            f"Result({self.experiment!r}, method={self.method!r}, rows={len(self.table)}, "
            f"columns={list(self.columns)!r})"
        )


def result_of(experiment: Experiment, method: Method, context: Context) -> Result:
    """Run an experiment and return what it gives."""
    table = experiment.table(method, context)
    drawn = method in experiment.random
    settings = {
        "parameters": experiment.settings(),
        "seed": context.seed if drawn else None,
        "generator": experiment.generator if drawn else None,
        "versions": _versions(experiment.packages),
    }
    return Result(
        experiment=experiment.name,
        question=experiment.question,
        method=method,
        settings=settings,
        table=table,
        answer=experiment.answer(table),
        sketch=experiment.sketch(table),
    )


def _versions(packages: tuple[str, ...]) -> dict[str, str]:
    found = {"python": platform.python_version(), "rootdk": __version__}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found


def _cell(value: object) -> object:
    if isinstance(value, tuple):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else value
