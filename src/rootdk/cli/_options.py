"""The options that commands share, as Typer reads them off a signature."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rootdk.cli._failures import TRACEBACK

__all__ = [
    "Attention",
    "Baseline",
    "Dtype",
    "Expect",
    "FailOn",
    "Format",
    "Heads",
    "Ignore",
    "Inputs",
    "MaxTokens",
    "Output",
    "Seed",
    "Select",
    "State",
    "Target",
    "TextFile",
    "TextGiven",
    "Traceback",
]


def _want_traceback(context: typer.Context, on: bool) -> bool:
    context.meta[TRACEBACK] = on
    return on


Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="package.module:callable or file.py:callable, which returns model, (model, args) or "
        "(model, args, kwargs); a transformers model directory; a .gguf or .onnx file; or a "
        ".npz or .safetensors file of saved tensors.",
    ),
]
Format = Annotated[
    str | None, typer.Option("--format", metavar="FORMAT", help="text (the default) or json.")
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write there; its suffix is a format."),
]
Select = Annotated[
    list[str] | None,
    typer.Option(metavar="CODE", help="Run only these rules: a code, its beginning, or a name."),
]
Ignore = Annotated[list[str] | None, typer.Option(metavar="CODE", help="Leave these rules out.")]
FailOn = Annotated[
    str | None,
    typer.Option(
        metavar="BAR", help="error, warning, note or never: what exits 1; by default warning."
    ),
]
State = Annotated[
    str, typer.Option(metavar="STATE", help="init or trained; auto reads it off the norms.")
]
Dtype = Annotated[
    str | None,
    typer.Option(metavar="DTYPE", help="float64, float32, bfloat16 or float16; auto: as stored."),
]
Attention = Annotated[
    str | None,
    typer.Option(
        "--attn", metavar="NAME", help="transformers' attention implementation: eager or sdpa."
    ),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(metavar="N", help="Most tokens; by default 512 of a text, 128 random ones."),
]
TextGiven = Annotated[
    str | None, typer.Option("--text", help="Feed this text through the model's own tokenizer.")
]
TextFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Feed the text in this file (UTF-8).")
]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="NAME=VALUE",
        help="An input of an ONNX model: a .npy file, or sizes such as 1x128. Repeatable.",
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        min=0,
        max=2**63 - 1,
        metavar="N",
        help="Seeds synthetic input, the pass and the sampled rows.",
    ),
]
Baseline = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="An earlier JSON report: only what is new exits 1."),
]
Heads = Annotated[bool, typer.Option("--heads", help="Show every head, not only the odd ones.")]
Expect = Annotated[
    list[str] | None,
    typer.Option(
        metavar="GLOB=SCALE",
        help="The scale that sites should have: 'blocks.*.attn=1/sqrt(hidden)'. Repeatable.",
    ),
]
Traceback = Annotated[
    bool,
    typer.Option("--traceback", help="Show the whole traceback of an error.",
                 callback=_want_traceback, is_eager=True),
]  # fmt: skip
