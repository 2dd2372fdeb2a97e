"""``rootdk capture``: a model's attention calls into a file that ``rootdk check`` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rootdk.cli import _options as given

__all__ = ["register"]

File = Annotated[
    Path,
    typer.Option("--output", "-o", metavar="FILE", help="The file: .npz or .safetensors."),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("capture")(capture)


def capture(
    target: given.Target,
    output: File,
    text: given.TextGiven = None,
    text_file: given.TextFile = None,
    max_tokens: given.MaxTokens = None,
    inputs: given.Inputs = None,
    dtype: given.Dtype = None,
    attn: given.Attention = None,
    seed: given.Seed = 0,
    traceback: given.Traceback = False,
) -> None:
    """Write the query, key and what else there is of every attention call to a file.

    rootdk check FILE then gives what checking the model itself gives.
    """
    del traceback  # its callback has read it
    from rootdk.capture import capture as run
    from rootdk.cli._failures import blamed_on
    from rootdk.cli._loading import Request, text_given
    from rootdk.cli._progress import progress
    from rootdk.cli._targets import load

    request = Request(
        text=text_given(text, text_file),
        dtype=dtype,
        attention=attn,
        max_tokens=max_tokens,
        seed=seed,
        inputs=tuple(inputs or ()),
    )
    with progress() as advance:
        advance(f"loading {target}")
        loaded = load(target, request)
        options = {"seed": seed, "progress": advance}
        kwargs = {"path": output, "rootdk": options, **loaded.kwargs}
        with blamed_on(f"running {target}"):
            written = run(loaded.model, *loaded.args, **kwargs)
    typer.echo(f"{written}: {written.stat().st_size} bytes")
