"""An ONNX model file of query, key and value, run by onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rootdk._lib.errors import TargetError
from rootdk._lib.extras import require
from rootdk._lib.layouts import parse_layout
from rootdk.identify.adapted import Adapted
from rootdk.identify.adapters._base import Adapter, Wanted
from rootdk.identify.libraries import library_named
from rootdk.identify.vocabulary import OPERANDS, Word, meaning_of, operand_of, word

__all__ = ["OnnxModel"]

_DTYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(bool)": "bool",
}
_LAYOUTS = {4: "bhsd", 3: "bs(hd)", 2: "sd"}


class OnnxModel(Adapter):
    """Inputs are told by their names, or the first three are taken in order."""

    name = "onnx-model"

    def accepts(self, function: Any) -> bool:
        """Whether it is a path to an ``.onnx`` file."""
        return isinstance(function, str | Path) and str(function).lower().endswith(".onnx")

    def adapt(self, function: Any, wanted: Wanted) -> Adapted:
        """Return the model as a function.

        Raises
        ------
        TargetError
            If it cannot be loaded, or is no function of three floating arrays.
        """
        session = _session(Path(function))
        inputs = {one.name: one for one in session.get_inputs()}
        operands = _operands(str(function), inputs)
        first = inputs[operands["query"]]
        words, base = _others(inputs, operands, wanted)

        def call(query: Any, key: Any, value: Any, own: dict[str, Any]) -> Any:
            feeds = dict(zip(operands.values(), (query, key, value), strict=True))
            shape = (query.shape, key.shape)
            for name, one in inputs.items():
                if name not in feeds:
                    given = own.get(name)
                    feeds[name] = _neutral(one, shape) if given is None else np.asarray(given)
            return session.run(None, feeds)[0]

        dtype = _DTYPES.get(first.type, "float32")
        return Adapted(
            name=wanted.name or Path(function).name,
            call=call,
            libraries=(library_named("numpy"),),
            layout=parse_layout(wanted.layout or _LAYOUTS.get(len(first.shape), "bhsd")),
            words=words,
            base=base,
            imports=(
                "import onnxruntime",
                f"session = onnxruntime.InferenceSession({str(function)!r})",
            ),
            expression="lambda q, k, v, **own: session.run(None, "
            f"dict(zip({list(operands.values())}, (q, k, v)), **own))[0]",
            versions=("onnxruntime",),
            dtypes=(dtype,),
        )


def _session(path: Path) -> Any:
    runtime = require("onnxruntime", extra="onnx", purpose="to run an ONNX model")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    if not path.is_file():
        raise TargetError(f"{path} is no file; expected an ONNX model")
    try:
        return runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TargetError(f"{path} cannot be loaded by onnxruntime: {said}") from error


def _operands(path: str, inputs: dict[str, Any]) -> dict[str, str]:
    found = {operand_of(name): name for name in inputs if operand_of(name)}
    if len(found) == 3:
        return {operand: found[operand] for operand in OPERANDS}
    floats = [name for name, one in inputs.items() if _DTYPES.get(one.type, "bool") != "bool"]
    if len(floats) < 3:
        raise TargetError(
            f"{path} has the inputs {', '.join(inputs)}; expected query, key and value"
        )
    return dict(zip(OPERANDS, floats, strict=False))


def _others(
    inputs: dict[str, Any], operands: dict[str, str], wanted: Wanted
) -> tuple[dict[str, Word], dict[str, Any]]:
    words: dict[str, Word] = {}
    for name, one in inputs.items():
        if name in operands.values():
            continue
        meant = wanted.arguments.get(name)
        found = word(name, meant) if isinstance(meant, str) else meaning_of(name)
        if found is not None and found.meaning == "mask" and _DTYPES.get(one.type) != "bool":
            found = Word(name, "bias")
        if found is not None:
            words[found.meaning] = found
    return words, {}


def _neutral(one: Any, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> Any:
    """Return what changes nothing: a bias of 0, a mask that is True."""
    query, key = shapes
    shape = (*query[: max(len(one.shape) - 2, 0)], query[-2], key[-2])[-len(one.shape) :]
    if _DTYPES.get(one.type) == "bool":
        return np.ones(shape, dtype=bool)
    return np.zeros(shape, dtype=_DTYPES.get(one.type, "float32"))
