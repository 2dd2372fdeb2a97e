"""FUNCTION: a callable in a module or a file, an ONNX model, or a name that an adapter knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rootdk._lib.errors import TargetError
from rootdk.cli._failures import blamed_on
from rootdk.cli._targets import callable_named

__all__ = ["function_named", "names"]


def names() -> list[str]:
    """Return the names that adapters know, in order."""
    from rootdk.identify import named_targets

    return sorted(named_targets())


def function_named(text: str) -> Any:
    """Return the function that a text names.

    Raises
    ------
    TargetError
        If there is none; the message says what a name looks like.
    """
    from rootdk.identify import named_targets

    targets = named_targets()
    if text in targets:
        with blamed_on(f"importing {text}"):
            return targets[text]()
    if text.lower().endswith(".onnx"):
        if not Path(text).is_file():
            raise TargetError(f"{text} is no file; expected an ONNX model")
        return Path(text)
    place, colon, name = text.rpartition(":")
    if not colon or not place or not name:
        raise TargetError(
            f"the function is {text!r}; expected package.module:function, file.py:function, an "
            ".onnx file, or one of the names that `rootdk identify --list` shows"
        )
    return callable_named(place, name)
