"""``rootdk lab``: list the experiments, and run them."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rootdk._lib.errors import ArgumentError, MissingExtraError
from rootdk.cli import _options as given
from rootdk.cli._progress import counted
from rootdk.cli._tables import described, listed, shown
from rootdk.cli._terminal import columns

if TYPE_CHECKING:
    from rootdk.lab import Experiment, Result

__all__ = ["register"]

ALL = "all"
FORMATS = ("table", "json", "csv")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Of an experiment, or all.")]
OneName = Annotated[str | None, typer.Argument(metavar="NAME", help="Show its parameters.")]
Out = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Write CSV, JSON, SVG and PNG there."),
]
Format = Annotated[
    str | None, typer.Option("--format", metavar="FORMAT", help="table (the default), json or csv.")
]
MethodOption = Annotated[
    str | None,
    typer.Option(metavar="METHOD", help="replay, sample or exact; the first offered by default."),
]
Param = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="A parameter: widths=64,128. Repeatable."),
]
Seed = Annotated[int | None, typer.Option(metavar="N", help="Seeds everything that is drawn.")]
Jobs = Annotated[int, typer.Option(metavar="N", help="Processes of a sweep; no number changes.")]
Cluster = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="A Dask scheduler, tcp://…, or local, for sweeps."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    lab = typer.Typer(
        no_args_is_help=True,
        help="Experiments on the scale: replayed to the digit, sampled, or exact.",
    )
    lab.command("list")(list_experiments)
    lab.command("run")(run)
    app.add_typer(lab, name="lab")


def list_experiments(name: OneName = None, format: given.Format = None) -> None:  # noqa: A002
    """List the experiments, or one with its parameters and columns."""
    from rootdk import lab

    kinds = lab.all_experiments() if name is None else (lab.experiment(name),)
    if format == "json":
        typer.echo(json.dumps([_about(kind) for kind in kinds], indent=2, ensure_ascii=False))
    elif format not in (None, "text"):
        raise ArgumentError.unexpected("--format", format, "one of json, text")
    elif name is None:
        typer.echo(listed(kinds), nl=False)
    else:
        typer.echo(described(kinds[0]), nl=False)


def run(
    name: Name,
    out: Out = None,
    format: Format = None,  # noqa: A002 - the option's name
    method: MethodOption = None,
    param: Param = None,
    seed: Seed = None,
    jobs: Jobs = 1,
    cluster: Cluster = None,
    traceback: given.Traceback = False,
) -> None:
    """Run an experiment, or all of them: a table, and the answer in one sentence."""
    from rootdk import lab

    del traceback
    if format not in (None, *FORMATS):
        raise ArgumentError.unexpected("--format", format, f"one of {', '.join(FORMATS)}")
    kinds = lab.all_experiments() if name == ALL else (lab.experiment(name),)
    if name == ALL:
        kinds = _fit_for_all(kinds, method, param, format, out)
    options = {"seed": seed, "jobs": jobs, "cluster": cluster, "folder": out}
    results = []
    for kind in kinds:
        try:
            result = _run_one(kind, method, param or (), options)
        except MissingExtraError as error:
            if name != ALL:
                raise
            typer.echo(f"{kind.name} is skipped: {error}", err=True)
            continue
        results.append(result)
        files = result.save(out) if out is not None else ()
        if format in (None, "table"):
            _tell(result, files, table=format == "table" or out is None)
    if format == "json":
        text = [result.json().rstrip("\n") for result in results]
        typer.echo(text[0] if name != ALL else "[\n" + ",\n".join(text) + "\n]")
    elif format == "csv":
        typer.echo("\n".join(result.csv() for result in results), nl=False)


def _fit_for_all(
    kinds: Sequence[type[Experiment]],
    method: str | None,
    param: Sequence[str] | None,
    format: str | None,  # noqa: A002 - the option's name
    out: Path | None,
) -> tuple[type[Experiment], ...]:
    """Return those of all experiments that offer the method; refuse what only one can take."""
    from rootdk.lab import METHODS

    if param:
        raise ArgumentError(f"--param {param[0]} was given for all; expected one experiment")
    if format == "csv" and out is None:
        raise ArgumentError("--format csv was given for all, whose columns differ; expected --out")
    if method is not None and method not in METHODS:
        raise ArgumentError.unexpected("--method", method, f"one of {', '.join(METHODS)}")
    return tuple(kind for kind in kinds if method is None or method in kind.methods())


def _run_one(
    kind: type[Experiment],
    method: str | None,
    param: Sequence[str],
    options: dict[str, Any],
) -> Result:
    from rootdk import lab

    parameters = _read(kind, param)
    with ExitStack() as stack:
        progress = stack.enter_context(counted(kind.name))
        return lab.run(
            kind.name,
            method=method,  # type: ignore[arg-type] # a wrong one is refused by name
            progress=progress,
            **options,
            **parameters,
        )


def _read(kind: type[Experiment], param: Sequence[str]) -> dict[str, Any]:
    known = kind.parameters()
    found: dict[str, Any] = {}
    for text in param:
        key, equals, value = text.partition("=")
        key = key.strip().replace("-", "_")
        if not equals:
            raise ArgumentError.unexpected("--param", text, "KEY=VALUE")
        if key not in known:
            some = ", ".join(known) or "none, it has no parameters"
            raise ArgumentError(f"{kind.name} has no parameter {key!r}; expected {some}")
        found[key] = known[key].read(value)
    return found


def _tell(result: Result, files: Sequence[Path], *, table: bool) -> None:
    lines = [f"{result.experiment} · {result.method} · {result.question}", ""]
    if table:
        lines += [shown(result), ""]
    lines += [str(file) for file in files]
    lines += [""] if files else []
    # For a reader; JSON has the sentence on one line.
    said = textwrap.wrap(result.answer, columns(widest=100), break_on_hyphens=False)
    typer.echo("\n".join([*lines, *said, ""]))


def _about(kind: type[Experiment]) -> dict[str, Any]:
    return {
        "name": kind.name,
        "question": kind.question,
        "methods": kind.methods(),
        "needs": kind.needs,
        "parameters": {
            name: {"default": one.default, "expected": one.expected, "says": one.says}
            for name, one in kind.parameters().items()
        },
        "columns": dict(kind.columns),
    }
