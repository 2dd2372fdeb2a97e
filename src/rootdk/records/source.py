"""Where in the user's code something was computed."""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Frame", "Source"]


@dataclass(frozen=True, kw_only=True)
class Frame:
    """One line of Python on the call stack."""

    file: str
    line: int
    function: str

    @property
    def location(self) -> str:
        """``file:line``, the file relative to the working directory where it lies below it."""
        return f"{shorten(self.file)}:{self.line}"

    @property
    def text(self) -> str:
        """The source line, stripped; empty where the file cannot be read."""
        return linecache.getline(self.file, self.line).strip()


@dataclass(frozen=True, kw_only=True)
class Source:
    """Up to three frames of the user's code, innermost first, and the module they ran in.

    The innermost frame of a library model is often a helper that every model shares, so the
    frames that called it are kept as well.
    """

    frames: tuple[Frame, ...]
    module_path: str = ""

    @property
    def location(self) -> str:
        """``file:line`` of the innermost frame; the module path where no frame is known."""
        return self.frames[0].location if self.frames else (self.module_path or "<unknown>")

    @property
    def text(self) -> str:
        """The innermost source line, stripped."""
        return self.frames[0].text if self.frames else ""

    def __str__(self) -> str:
        return self.location


def shorten(file: str) -> str:
    """Return ``file`` relative to the package folder it lies in, or the working directory."""
    path = Path(file)
    parts = path.parts
    for marker in ("site-packages", "dist-packages"):
        if marker in parts:
            return str(Path(*parts[parts.index(marker) + 1 :]))
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return file
