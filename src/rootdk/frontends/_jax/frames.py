"""The lines of the user's code that an equation came from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jaxlib

import rootdk
from rootdk.records import Frame

__all__ = ["Frames", "Lines"]

_SKIPPED_FOLDERS = tuple(
    str(Path(module.__file__).parent) + "/"
    for module in (jax, jaxlib, rootdk)
    if module.__file__ is not None
)
# What carries a call through, and says nothing about where a factor stands.
_SKIPPED = (
    *("/flax/core/", "/flax/linen/module.py", "/flax/linen/transforms.py", "/flax/nnx/transforms/"),
    *("/flax/nnx/graph.py", "/flax/nnx/graphlib.py", "/flax/nnx/module.py", "/flax/nnx/bridge/"),
    *("/equinox/_", "/equinox/nn/_misc.py", "/keras/src/backend/", "/keras/src/utils/"),
    *("/keras/src/ops/", "/keras/src/layers/layer.py", "/keras/src/models/"),
    *("/einops/", "/jaxtyping/", "/beartype/", "/opt_einsum/", "<frozen", "<string>", "<__array"),
)
_FRAMES = 3
_TRACED = "trace_to_jaxpr"
_RUNNER = str(Path(__file__).with_name("run.py"))
_NN = "/jax/_src/nn/functions.py"
_SPECIAL = "/jax/_src/ops/special.py"
_REGIONS = {
    (_NN, "softmax"): "softmax",
    (_NN, "_softmax"): "softmax",
    (_NN, "_softmax_deprecated"): "softmax",
    (_NN, "log_softmax"): "log_softmax",
    (_SPECIAL, "logsumexp"): "logsumexp",
    (_SPECIAL, "_logsumexp"): "logsumexp",
}


@dataclass(frozen=True)
class Lines:
    """The user's frames around an equation, and the function of the library it is part of."""

    frames: tuple[Frame, ...] = ()
    region: str | None = None

    def within(self, outer: Lines) -> Lines:
        """These, of an equation inside a call, followed by those of the call."""
        region = self.region if self.frames or self.region is not None else outer.region
        return Lines((*self.frames, *outer.frames)[:_FRAMES], region)


class Frames:
    """Reads tracebacks outwards; what was read once is known."""

    def __init__(self) -> None:
        self._known: dict[Any, Lines] = {}
        self._skipped: dict[str, bool] = {}

    def lines(self, traceback: Any) -> Lines:
        """The frames up to where the function was traced.

        A function that is compiled is traced once: who called it, only the call itself knows.
        """
        if traceback is None:
            return Lines()
        if traceback not in self._known:
            self._known[traceback] = self._read(traceback)
        return self._known[traceback]

    def _read(self, traceback: Any) -> Lines:
        frames: list[Frame] = []
        region: str | None = None
        for frame in traceback.frames:
            file, function = frame.file_name, frame.function_name
            if _TRACED in function or file == _RUNNER or len(frames) == _FRAMES:
                break
            if self._skip(file):
                if not frames and region is None:
                    region = _region(file, function)
                continue
            frames.append(Frame(file=file, line=int(frame.line_num), function=function))
        return Lines(tuple(frames), region)

    def _skip(self, file: str) -> bool:
        if file not in self._skipped:
            skip = file.startswith(_SKIPPED_FOLDERS) or any(part in file for part in _SKIPPED)
            self._skipped[file] = skip
        return self._skipped[file]


def _region(file: str, function: str) -> str | None:
    for (end, name), region in _REGIONS.items():
        if function == name and file.endswith(end):
            return region
    return None
