"""``rootdk explain``: a rule's page."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("explain")(explain)


def explain(
    code: Annotated[str, typer.Argument(metavar="CODE", help="A rule's code or name: RDK101.")],
) -> None:
    """Explain a rule: what it does, why it matters, how it is measured, and the remedy."""
    from rootdk import rules
    from rootdk.cli._terminal import colors

    found = rules.rule(code)
    title = f"{found.code} {found.name}"
    typer.echo(typer.style(title, bold=True) if colors() else title)
    typer.echo(f"\n{found.page.text}")
