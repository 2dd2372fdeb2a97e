"""Files that are checked as they are: ONNX models, and tensors saved elsewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from rootdk._lib.errors import ArgumentError, TargetError
from rootdk.cli._loading import Loaded, Request

__all__ = ["load_file"]


def load_file(path: Path, request: Request, forms: str) -> Loaded:
    """Return an ONNX model with the inputs that were given, or saved tensors as they are.

    Raises
    ------
    TargetError
        If there is no such file, or an option is given that means nothing to it.
    ArgumentError
        If an ``--input`` means nothing.
    """
    if not path.is_file():
        raise TargetError(f"{path} is no file; {forms}")
    runs = path.suffix.lower() == ".onnx"
    kind = "is an ONNX model" if runs else "holds saved tensors"
    given = {
        "--text or --text-file": request.text,
        "--max-tokens": request.max_tokens,
        "--dtype": request.dtype,
        "--attn": request.attention,
        "--input": None if runs else request.inputs or None,
    }
    for option, value in given.items():
        if value is not None:
            raise TargetError(
                f"{option} is given for {path}, which {kind}; expected it with another target"
            )
    return Loaded(model=path, kwargs=dict(_input(pair) for pair in request.inputs))


def _input(pair: str) -> tuple[str, Any]:
    from rootdk.frontends.onnx_graph import Sizes

    name, equals, value = pair.partition("=")
    if not (name and equals and value):
        raise ArgumentError.unexpected("--input", pair, "NAME=FILE.npy or NAME=1x128")
    if re.fullmatch(r"\d+(x\d+)*", value):
        return name, Sizes(int(size) for size in value.split("x"))
    path = Path(value)
    if path.suffix != ".npy" or not path.is_file():
        raise ArgumentError.unexpected(
            f"--input {name}", value, "sizes such as 1x128, or a .npy file that exists"
        )
    try:
        return name, np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError, SyntaxError, MemoryError) as error:
        raise ArgumentError(f"--input {name}: {path} cannot be read: {error}") from None
