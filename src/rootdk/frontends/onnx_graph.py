"""ONNX: a model file, or a ModelProto, run once by onnxruntime operation by operation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rootdk._lib.extras import require
from rootdk.frontends._base import Frontend, Trace

__all__ = ["OnnxGraph", "Sizes"]

_SUFFIXES = (".onnx",)


class Sizes(tuple[int, ...]):
    """The shape of an input that is to be made up, where an array could be given."""

    __slots__ = ()


class OnnxGraph(Frontend):
    """Accepts the path of an ``.onnx`` file, or an ``onnx.ModelProto``."""

    name = "an .onnx file or an onnx.ModelProto"

    def accepts(
        self, model: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> bool:
        """Whether ``model`` is such a path or proto."""
        if isinstance(model, str | Path):
            return Path(model).suffix.lower() in _SUFFIXES
        onnx = sys.modules.get("onnx")
        return onnx is not None and isinstance(model, onnx.ModelProto)

    def trace(
        self,
        model: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        rows: int,
        seed: int | None,
        statistics: bool,
        progress: Callable[[str], None] | None,
    ) -> Trace:
        """One pass over the graph; inputs that are not given are made up, and said."""
        require("onnx", extra="onnx", purpose="to read an ONNX model")
        require("onnxruntime", extra="onnx", purpose="to run an ONNX model")
        from rootdk.frontends._onnx.run import run

        return run(
            model, args, kwargs, rows=rows, seed=seed, statistics=statistics, progress=progress
        )
