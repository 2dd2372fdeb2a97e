"""Read an ONNX file as data: the graph without its external weights, and where those lie."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import external_data_helper, helper, inliner, numpy_helper

from rootdk._lib.errors import TargetError

__all__ = ["Loaded", "Weights", "load"]

_MOST_BYTES = 1 << 40


class Weights(Mapping[str, npt.NDArray[Any]]):
    """The initializers of a graph by name, each read when it is asked for.

    External ones are mapped from their file, so that only what an operation touches is read.
    """

    def __init__(self, tensors: Mapping[str, onnx.TensorProto], folder: Path) -> None:
        self._tensors = dict(tensors)
        self._folder = folder

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return read_tensor(self._tensors[name], self._folder)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, without reading it."""
        return tuple(self._tensors[name].dims)

    def is_float(self, name: str) -> bool:
        """Whether it holds floating-point numbers, without reading it."""
        return self._tensors[name].data_type in _FLOATS


_FLOATS = frozenset(
    {
        onnx.TensorProto.FLOAT,
        onnx.TensorProto.FLOAT16,
        onnx.TensorProto.BFLOAT16,
        onnx.TensorProto.DOUBLE,
    }
)


class Loaded:
    """A model whose functions are inlined, and its weights."""

    def __init__(
        self, model: onnx.ModelProto, folder: Path, name: str, file: Path | None = None
    ) -> None:
        self.model = model
        self.file = file
        self.graph = model.graph
        self.folder = folder
        self.name = name
        self.weights = Weights(dict(_named(model.graph)), folder)
        self.opsets = {entry.domain: entry.version for entry in model.opset_import}


def _named(graph: onnx.GraphProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    """The initializers, and the tensors that Constant operations hold, by name."""
    for node in graph.node:
        if node.op_type == "Constant":
            yield from ((node.output[0], a.t) for a in node.attribute if a.name == "value")
    yield from ((tensor.name, tensor) for tensor in graph.initializer)


def load(source: str | Path | onnx.ModelProto) -> Loaded:
    """Return the model of a file, or one that is in memory.

    Raises
    ------
    TargetError
        If it is no ONNX model, or names external data outside its own folder or beyond the
        end of a file.
    """
    path: Path | None = None
    if isinstance(source, onnx.ModelProto):
        model, folder, name = source, Path.cwd(), source.graph.name or "the model"
    else:
        path = Path(source)
        if not path.is_file():
            raise TargetError(f"{path} is no file; expected an .onnx model")
        model, folder, name = _read(path), path.resolve().parent, str(path)
    if not model.graph.node:
        raise TargetError(f"{name} has no operations; expected an ONNX model")
    if not all(isinstance(text, str) for text in _texts(model.graph)):
        raise TargetError(f"{name} holds names that are no text; expected an ONNX model")
    for tensor in _tensors(model.graph):
        _require_sane(tensor, folder, name)
    return Loaded(_inlined(model, name), folder, name, path)


def _read(path: Path) -> onnx.ModelProto:
    try:
        return onnx.load(str(path), load_external_data=False)
    except Exception as error:  # noqa: BLE001 - the classes of protobuf's errors are private
        words = " ".join(str(error).split())[:200]
        raise TargetError(f"{path} is no ONNX model: {type(error).__name__}: {words}") from None


def _inlined(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    if not model.functions:
        return model
    try:
        return inliner.inline_local_functions(model)
    except Exception as error:  # noqa: BLE001 - the same
        words = " ".join(str(error).split())[:200]
        raise TargetError(f"the functions of {name} cannot be inlined: {words}") from None


def _texts(graph: onnx.GraphProto) -> Iterator[object]:
    """Every name of a graph; protobuf gives bytes where one is not UTF-8."""
    yield from (tensor.name for tensor in graph.initializer)
    for value in (*graph.input, *graph.output):
        yield value.name
        yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        for entry in node.metadata_props:
            yield from (entry.key, entry.value)
        for attribute in node.attribute:
            yield attribute.name
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _texts(inner)


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("g"):
                yield from _tensors(attribute.g)
            for inner in attribute.graphs:
                yield from _tensors(inner)


def _require_sane(tensor: onnx.TensorProto, folder: Path, name: str) -> None:
    """Refuse a shape that means nothing, and data that lie elsewhere than they may."""
    if any(size < 0 for size in tensor.dims):
        raise TargetError(f"{name}: {tensor.name} has the shape {list(tensor.dims)}")
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        raw = len(tensor.raw_data)
        if raw and raw != _bytes_of(tensor):
            raise TargetError(
                f"{name}: {tensor.name} of shape {list(tensor.dims)} needs {_bytes_of(tensor)} "
                f"bytes and has {raw}"
            )
        return
    _located(tensor, folder, name)


def _bytes_of(tensor: onnx.TensorProto) -> int:
    count = math.prod(tensor.dims)
    if tensor.data_type in _HALF_BYTES:
        return int(count + 1) // 2
    try:
        width = int(np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type)).itemsize)
    except (KeyError, TypeError, ValueError):
        raise TargetError(f"{tensor.name} has an unknown type ({tensor.data_type})") from None
    return int(count * width)


_HALF_BYTES = frozenset(
    getattr(onnx.TensorProto, name)
    for name in ("INT4", "UINT4", "FLOAT4E2M1")
    if hasattr(onnx.TensorProto, name)
)


def _located(tensor: onnx.TensorProto, folder: Path, name: str) -> tuple[Path, int]:
    """Return file and offset of external data that lie within the folder and the file."""
    try:
        info = external_data_helper.ExternalDataInfo(tensor)
        location = str(info.location)
        offset, length = (int(getattr(info, name) or 0) for name in ("offset", "length"))
    except (ValueError, TypeError):
        raise TargetError(f"{name}: where {tensor.name} lies cannot be read") from None
    relative = Path(location)
    path = (folder / relative).resolve()
    outside = relative.is_absolute() or ".." in relative.parts or "\\" in location
    if not location or outside or not path.is_relative_to(folder.resolve()):
        raise TargetError(
            f"{name}: {tensor.name} lies in {location!r}; "
            "expected a file in the folder of the model or below it"
        )
    if not path.is_file():
        raise TargetError(f"{name}: {tensor.name} lies in {location!r}, which is no file")
    needed = _bytes_of(tensor)
    size = path.stat().st_size
    if needed > _MOST_BYTES or offset < 0 or offset + needed > size:
        raise TargetError(
            f"{name}: {tensor.name} needs {needed} bytes from {offset} of {location!r}; "
            f"that file has {size}"
        )
    if length not in (0, needed):
        raise TargetError(
            f"{name}: {tensor.name} of shape {list(tensor.dims)} needs {needed} bytes, and "
            f"{length} are given to it"
        )
    return path, offset


def read_tensor(tensor: onnx.TensorProto, folder: Path) -> npt.NDArray[Any]:
    """Return a tensor's numbers; external ones are mapped, not read."""
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        array: npt.NDArray[Any] = numpy_helper.to_array(tensor)
        return array
    path, offset = _located(tensor, folder, str(folder))
    shape = tuple(tensor.dims)
    if tensor.data_type in _HALF_BYTES or not math.prod(shape):
        copied = onnx.TensorProto()
        copied.CopyFrom(tensor)
        external_data_helper.load_external_data_for_tensor(copied, str(folder))
        return numpy_helper.to_array(copied)
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
    return np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape)
