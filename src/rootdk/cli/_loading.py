"""What a TARGET becomes: a model and what to call it with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rootdk._lib.errors import ArgumentError
from rootdk._lib.extras import require

__all__ = ["DTYPES", "Loaded", "Request", "text_given", "torch_dtype"]

DTYPES = ("auto", "float64", "float32", "bfloat16", "float16")


@dataclass(frozen=True, kw_only=True)
class Request:
    """How the user wants the target loaded and fed; None leaves the choice to the loader."""

    text: str | None = None
    dtype: str | None = None
    attention: str | None = None
    max_tokens: int | None = None
    seed: int = 0
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A model, its inputs, and what is to be said of both.

    ``second_inputs`` makes inputs of another length, where that can be done.
    """

    model: Any
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    second_inputs: Callable[[], tuple[tuple[Any, ...], dict[str, Any]]] | None = None


def torch_dtype(name: str) -> Any:
    """Return torch's dtype of a name in ``DTYPES``; ``auto`` stays as it is."""
    if name not in DTYPES:
        raise ArgumentError.unexpected("--dtype", name, f"one of {', '.join(DTYPES)}")
    if name == "auto":
        return name
    return getattr(require("torch", extra="torch", purpose="to give a model a dtype"), name)


def text_given(text: str | None, file: Path | None) -> str | None:
    """Return the text of ``--text`` or ``--text-file``; None where neither is given."""
    if file is None:
        return text
    if text is not None:
        raise ArgumentError("--text and --text-file are both given; expected one of them")
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"--text-file {file} cannot be read: {error}") from None
