"""``rootdk diagnose``: the routine on plain numbers, for someone who has only measured."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from rootdk._lib.errors import ArgumentError
from rootdk.cli import _options as given

__all__ = ["register"]

Spread = Annotated[float, typer.Option(help="Standard deviation of the visible scaled scores.")]
HeadDim = Annotated[int, typer.Option(help="Width of a head, d_k.")]
NumHeads = Annotated[int | None, typer.Option(metavar="N", help="How many heads.")]
Keys = Annotated[int | None, typer.Option(metavar="N", help="Length of the key sequence.")]
QueryStd = Annotated[float | None, typer.Option(help="Standard deviation of query entries.")]
KeyStd = Annotated[float | None, typer.Option(help="Standard deviation of key entries.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("diagnose")(diagnose)


def diagnose(
    spread: Spread,
    head_dim: HeadDim,
    num_heads: NumHeads = None,
    keys: Keys = None,
    query_std: QueryStd = None,
    key_std: KeyStd = None,
    format: given.Format = None,  # noqa: A002 - the option's name
) -> None:
    """Explain a measured spread of attention scores: what would give it, ranked."""
    from rootdk.diagnose import diagnose as explain
    from rootdk.report.json import to_plain

    if format not in (None, "text", "json"):
        raise ArgumentError.unexpected("--format", format, "one of json, text")
    answer = explain(
        spread=spread,
        head_dim=head_dim,
        num_heads=num_heads,
        keys=keys,
        query_std=query_std,
        key_std=key_std,
    )
    if format == "json":
        typer.echo(json.dumps(to_plain(answer), indent=2, ensure_ascii=False, allow_nan=False))
    else:
        typer.echo(str(answer))
