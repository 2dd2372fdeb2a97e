"""The lines of the user's code that an operation came from."""

from __future__ import annotations

import sys
from pathlib import Path
from types import CodeType, FrameType

import torch

import rootdk
from rootdk.records import Frame, Source

__all__ = ["Frames", "module_call"]

_SKIPPED_FOLDERS = tuple(
    str(Path(module.__file__).parent) + "/"
    for module in (torch, rootdk)
    if module.__file__ is not None
)
# Notation wrappers: the line that matters is the one that called them.
_NOTATION = (
    "/keras/src/backend/",
    "/keras/src/ops/",
    "/einops/",
    "/jaxtyping/",
    "/beartype/",
    "/opt_einsum/",
    "<frozen",
    "<string>",
)
# Frames of a library's decorators say nothing about where a factor stands.
_WRAPPERS = frozenset({"wrapper", "wrapped", "wrapped_func", "_wrapper", "wrapped_fn", "inner"})
_FRAMES = 3
_MODULE_CALL = torch.nn.Module._call_impl.__code__
_RUNNER = str(Path(__file__).with_name("run.py"))


def module_call() -> FrameType | None:
    """The frame of the module call whose hook asks; None where there is none near."""
    frame: FrameType | None = sys._getframe(2)
    for _ in range(3):
        if frame is None or frame.f_code is _MODULE_CALL:
            return frame
        frame = frame.f_back
    return None


class Frames:
    """Walks the stack outwards and keeps the first frames that are the user's."""

    def __init__(self) -> None:
        self._skipped: dict[str, bool] = {}
        # By code and place in it; the code is kept, since its id is the key.
        self._known: dict[tuple[int, int], tuple[CodeType, Frame | None]] = {}
        # By number of a module call: what lies outside its frame, the same until it ends.
        self._outside: dict[int, list[Frame]] = {}

    def source(
        self, module_path: str, call: tuple[int, FrameType | None] | None, depth: int
    ) -> Source:
        """The source of the call ``depth`` frames above this one.

        The module call that runs is given by its number and its frame, if there is one.
        """
        number, until = call or (0, None)
        frames: list[Frame] = []
        if self._walk(sys._getframe(depth), frames, until):
            assert until is not None
            outside = self._outside.get(number)
            if outside is None:
                outside = self._outside[number] = []
                self._walk(until.f_back, outside, None)
            frames += outside[: _FRAMES - len(frames)]
        return Source(frames=tuple(frames), module_path=module_path)

    def _walk(self, frame: FrameType | None, found: list[Frame], until: FrameType | None) -> bool:
        """Add the user's frames from one outwards; tell whether ``until`` was met."""
        while frame is not None and len(found) < _FRAMES:
            if frame is until:
                return True
            code = frame.f_code
            place = id(code), frame.f_lasti
            known = self._known.get(place)
            if known is None:
                if code.co_filename == _RUNNER:
                    # What lies outside the run called rootdk, not the model.
                    break
                known = self._known[place] = code, self._shown(frame)
            if known[1] is not None:
                found.append(known[1])
            frame = frame.f_back
        return False

    def _shown(self, frame: FrameType) -> Frame | None:
        """The frame as it is reported; None if it is not the user's."""
        code, file = frame.f_code, frame.f_code.co_filename
        skip = self._skipped.get(file)
        if skip is None:
            skip = file.startswith(_SKIPPED_FOLDERS) or any(n in file for n in _NOTATION)
            self._skipped[file] = skip
        if skip or (code.co_name in _WRAPPERS and "site-packages" in file):
            return None
        return Frame(file=file, line=frame.f_lineno, function=code.co_name)
