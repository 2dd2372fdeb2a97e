"""What went wrong in somebody else's code, in one line."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rootdk._lib.errors import RootdkError, TargetError
from rootdk.records.source import shorten

__all__ = ["TRACEBACK", "blamed_on", "one_line"]

TRACEBACK = "rootdk.traceback"
"""Where a command's context says that tracebacks are wanted."""

_LONGEST = 300
_OWN = str(Path(__file__).parents[1])
_STANDARD = sysconfig.get_paths()["stdlib"]


@contextmanager
def blamed_on(what: str) -> Iterator[None]:
    """Turn an exception of somebody else's code into a TargetError that says where it arose.

    What rootdk's own code raised passes through: on purpose, or by a fault of its own.
    """
    try:
        yield
    except RootdkError:
        raise
    except (Exception, SystemExit) as error:
        if _is_own(traceback.extract_tb(error.__traceback__)[1:]):
            raise
        raise TargetError(f"{what} raised {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """Return an exception's class, message and place: ``ValueError: no (model.py:12)``."""
    message = " ".join(str(error).split())
    if len(message) > _LONGEST:
        message = message[:_LONGEST] + "…"
    name = type(error).__name__
    return f"{name}: {message}{_place(error)}" if message else f"{name}{_place(error)}"


def _place(error: BaseException) -> str:
    """Return the innermost line that its user wrote; failing that, the innermost there is."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({shorten(error.filename)}:{error.lineno})"
    every = traceback.extract_tb(error.__traceback__)
    if _is_own(every):
        return f" ({shorten(every[-1].filename)}:{every[-1].lineno})"
    frames = [frame for frame in every if not frame.filename.startswith((_OWN, "<"))]
    own = [frame for frame in frames if not frame.filename.startswith(_STANDARD)]
    own = [f for f in own if not {"site-packages", "dist-packages"} & set(Path(f.filename).parts)]
    innermost = (own or frames)[-1:]
    return f" ({shorten(innermost[0].filename)}:{innermost[0].lineno})" if innermost else ""


def _is_own(frames: Sequence[traceback.FrameSummary]) -> bool:
    """Tell whether the innermost frame is a line of rootdk."""
    return bool(frames) and frames[-1].filename.startswith(_OWN)
