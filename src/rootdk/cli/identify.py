"""``rootdk identify``: what one attention function really computes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rootdk._lib.errors import ArgumentError
from rootdk.cli import _options as given

if TYPE_CHECKING:
    from rootdk.records import Datasheet

__all__ = ["register"]

_WIDEST = 120


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("identify")(identify)


def identify(
    function: Annotated[
        str,
        typer.Argument(
            metavar="FUNCTION",
            help="package.module:function or file.py:function of query, key and value; an ONNX "
            "model file; or one of the names that --list shows.",
        ),
    ] = "",
    layout: Annotated[
        str | None,
        typer.Option(metavar="AXES", help="bhsd (the default), bshd, hsd, sd, 'bs(hd)' …"),
    ] = None,
    format: given.Format = None,  # noqa: A002 - the option's name
    output: given.Output = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="FUNCTION", help="Another function; list in what the two differ."),
    ] = None,
    argument: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=MEANING", help="What an argument means. Repeatable."),
    ] = None,
    expect: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="What is meant: 'scale=1/head_dim', causal=top_left … Repeatable.",
        ),
    ] = None,
    select: given.Select = None,
    ignore: given.Ignore = None,
    fail_on: given.FailOn = None,
    dtype: given.Dtype = None,
    reproduce: Annotated[
        str | None,
        typer.Option(metavar="CODE", help="Print a script that shows this finding, and no more."),
    ] = None,
    seed: given.Seed = 0,
    known: Annotated[
        bool, typer.Option("--list", help="List the functions that have a name here.")
    ] = False,
    traceback: given.Traceback = False,
) -> None:
    """Say what an attention function really computes: scale, masks, heads, precision.

    Exit status: 0 without findings at or above the bar, 1 with some, 2 when it could not run.
    """
    del traceback  # its callback has read it
    from rootdk.check.settings import BARS, one_of
    from rootdk.cli._functions import function_named, names

    if known:
        typer.echo("\n".join(names()))
        return
    if not function:
        raise ArgumentError("no function is named; expected package.module:function")
    bar = one_of(fail_on or "warning", BARS, "--fail-on")
    renderer = _renderer(format, output)
    sheet = _run(
        function,
        layout=layout,
        arguments=_pairs(argument or [], "--argument"),
        expect=_expected(expect or []),
        against=function_named(against) if against else None,
        dtype=dtype,
        select=tuple(select or ()),
        ignore=tuple(ignore or ()),
        seed=seed,
    )
    if reproduce is not None:
        typer.echo(sheet.reproduce(reproduce), nl=False)
        return
    _write(sheet, renderer, output)
    bad = any(finding.severity.reaches(bar) for finding in sheet.findings)
    if bad or sheet.behaviour.call.outcome != "ok":
        raise typer.Exit(1 if bad else 2)


def _run(function: str, **options: Any) -> Datasheet:
    from rootdk.cli._functions import function_named
    from rootdk.cli._progress import progress
    from rootdk.identify import identify as run

    with progress() as advance:
        advance(f"loading {function}")
        target = function_named(function)
        advance(f"calling {function}")
        return run(target, name=function, **options)


def _pairs(texts: list[str], option: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name.strip() and equals and value.strip()):
            raise ArgumentError.unexpected(option, text, "NAME=VALUE")
        found[name.strip()] = value.strip()
    return found


def _expected(texts: list[str]) -> dict[str, Any] | None:
    found = _pairs([t if "=" in t else f"scale={t}" for t in texts], "--expect")
    for name, value in found.items():
        if name != "scale":
            try:
                found[name] = float(value)
            except ValueError:
                continue
    return found or None


def _renderer(format: str | None, output: Path | None) -> Any:  # noqa: A002
    from rootdk import report

    if format is not None:
        return report.renderer_named(format)
    if output is not None and output.suffix:
        return report.renderer_for_suffix(output.suffix)
    return report.renderer_named("text")


def _write(sheet: Datasheet, renderer: Any, output: Path | None) -> None:
    from rootdk.cli._terminal import colors, columns

    if output is None:
        sys.stdout.write(renderer.render(sheet, color=colors(), width=columns(_WIDEST)))
        return
    try:
        output.write_text(renderer.render(sheet), encoding="utf-8")
    except OSError as error:
        raise ArgumentError(f"{output} cannot be written: {error}") from None
    typer.echo(f"{output}: {sheet.formula or 'no formula'}")
