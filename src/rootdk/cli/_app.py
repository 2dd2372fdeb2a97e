"""The application: commands found in the folder, and one line for what goes wrong."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rootdk import __version__
from rootdk._lib.discovery import named
from rootdk._lib.errors import RootdkError
from rootdk.cli._failures import TRACEBACK, one_line

__all__ = ["build"]

CANNOT_RUN = 2


class _Group(TyperGroup):
    """Turns what goes wrong in a command into one line on stderr and exit status 2."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, KeyboardInterrupt, BrokenPipeError):
            raise
        except Exception as error:
            if ctx.meta.get(TRACEBACK):
                raise
            typer.echo(f"rootdk: error: {_said(error)}", err=True)
            raise typer.Exit(CANNOT_RUN) from None


def build() -> typer.Typer:
    """Return the application with the commands of every module of this folder.

    A module adds its commands in a function ``register(app)``.
    """
    app = typer.Typer(
        name="rootdk",
        cls=_Group,
        help="Numerical health of attention: softmax(QKᵀ/√d_k)V has one number that never crashes.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for register in named("rootdk.cli", "register"):
        register(app)
    return app


def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=lambda on: _version(on),
            is_eager=True,
        ),
    ] = False,
) -> None:  # fmt: skip
    del version


def _version(on: bool) -> None:
    if on:
        typer.echo(f"rootdk {__version__}")
        raise typer.Exit


def _said(error: Exception) -> str:
    if isinstance(error, RootdkError):
        return " ".join(str(error).split())
    usage = getattr(error, "format_message", None)
    if usage is not None:
        return f"{usage()} (see rootdk --help)"
    return f"{one_line(error)}; this is a fault of rootdk, and --traceback shows where"
