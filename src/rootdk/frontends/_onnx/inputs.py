"""What a graph is fed when nobody says: tokens within the vocabulary, masks of ones, noise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper

from rootdk._lib.errors import ArgumentError, TargetError
from rootdk.frontends._onnx.loading import Loaded
from rootdk.frontends._onnx.tensors import Array
from rootdk.frontends.onnx_graph import Sizes

__all__ = ["GUESSES", "Guess", "given_inputs", "has_open_sizes", "made_inputs"]


@dataclass(frozen=True, kw_only=True)
class Guess:
    """Sizes for symbols that nobody gave: a sequence's length, an image, samples of sound."""

    length: int = 32
    height: int = 224
    width: int = 224
    samples: int = 16000


GUESSES = (
    Guess(),
    Guess(length=16, height=48, width=320, samples=512),
    Guess(length=64, height=32, width=128, samples=576),
    Guess(length=1, height=64, width=64, samples=1600),
    Guess(length=128, height=640, width=640, samples=48000),
)
"""What is tried in turn, since a graph does not say what its symbols can be."""

_LAYOUT = frozenset(
    "Cast Unsqueeze Squeeze Reshape Identity Expand Flatten Slice Transpose".split()
)


def given_inputs(loaded: Loaded, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays, or the sizes, that somebody gave, by the graph's names and in its types.

    Raises
    ------
    ArgumentError
        If a name is not the graph's, or an array has another rank.
    """
    wanted = {value.name: value for value in _inputs(loaded)}
    named = dict(kwargs)
    if len(args) == 1 and isinstance(args[0], Mapping) and not kwargs:
        named = dict(args[0])
    else:
        named.update(zip(wanted, args, strict=False))
    unknown = [name for name in named if name not in wanted]
    if unknown or len(args) > len(wanted):
        shown = ", ".join(unknown) or f"{len(args)} arrays"
        raise ArgumentError(f"{shown} is given; {loaded.name} takes {', '.join(wanted)}")
    return {name: _as_typed(value, wanted[name]) for name, value in named.items()}


def has_open_sizes(loaded: Loaded, given: Mapping[str, Any]) -> bool:
    """Whether an input is to be made up of which the graph leaves a size open."""
    absent = [value for value in _inputs(loaded) if value.name not in given]
    return any(dim.dim_value <= 0 for value in absent for dim in _dims(value))


def made_inputs(
    loaded: Loaded, given: Mapping[str, Any], guess: Guess, seed: int
) -> tuple[dict[str, Array], tuple[str, ...]]:
    """Return arrays for all inputs of a graph, and remarks on those that were made up.

    Symbolic sizes that were given somewhere are the same everywhere.
    """
    rng = np.random.default_rng(seed)
    sizes = _known_sizes(loaded, given)
    tables = _Tables(loaded)
    found: dict[str, Array] = {}
    made: list[str] = []
    for value in _inputs(loaded):
        known = given.get(value.name)
        if known is not None and not isinstance(known, Sizes):
            found[value.name] = known
            continue
        shape = tuple(_size(d, i, value, sizes, guess) for i, d in enumerate(_dims(value)))
        shape = shape if known is None else tuple(known)
        array = _made(value, shape, tables, guess, rng)
        found[value.name] = array
        made.append(f"{value.name} {list(shape)}")
    remarks: tuple[str, ...] = ()
    if made:
        remarks = (f"made up (seed {seed}), not real data: {', '.join(made)}",)
    return found, remarks


def _inputs(loaded: Loaded) -> list[onnx.ValueInfoProto]:
    return [value for value in loaded.graph.input if value.name not in loaded.weights]


def _dims(value: onnx.ValueInfoProto) -> list[Any]:
    return list(value.type.tensor_type.shape.dim)


def _as_typed(value: Any, wanted: onnx.ValueInfoProto) -> Any:
    if isinstance(value, Sizes):
        return _of_rank(value, len(value), wanted)
    array = np.asarray(value.detach().cpu().numpy() if hasattr(value, "detach") else value)
    return _of_rank(array, array.ndim, wanted).astype(_dtype(wanted), copy=False)


def _of_rank(value: Any, rank: int, wanted: onnx.ValueInfoProto) -> Any:
    known = wanted.type.HasField("tensor_type") and wanted.type.tensor_type.HasField("shape")
    if known and rank != len(_dims(wanted)):
        raise ArgumentError(
            f"{wanted.name} is given {rank} dimensions; expected {len(_dims(wanted))}"
        )
    return value


def _dtype(value: onnx.ValueInfoProto) -> np.dtype[Any]:
    try:
        return np.dtype(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
    except (KeyError, TypeError, ValueError):
        raise TargetError(
            f"the input {value.name} is no tensor of numbers; expected one of a type that is"
        ) from None


def _known_sizes(loaded: Loaded, given: Mapping[str, Any]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for value in _inputs(loaded):
        known = given.get(value.name)
        if known is not None:
            shape = known if isinstance(known, Sizes) else known.shape
            for dim, size in zip(_dims(value), shape, strict=False):
                if dim.dim_param:
                    sizes[dim.dim_param] = int(size)
    return sizes


def _size(
    dim: Any, axis: int, value: onnx.ValueInfoProto, sizes: dict[str, int], guess: Guess
) -> int:
    if dim.HasField("dim_value") and dim.dim_value > 0:
        return int(dim.dim_value)
    name = dim.dim_param or f"{value.name}[{axis}]"
    if name not in sizes:
        sizes[name] = _guessed(name.lower(), axis, value, guess)
    return sizes[name]


def _guessed(name: str, axis: int, value: onnx.ValueInfoProto, guess: Guess) -> int:
    """A size for a symbol: none in the cache, one in a batch, and a length elsewhere."""
    rank = len(_dims(value))
    if "past" in name and "+" not in name and "total" not in name:
        return 0
    if axis == 0 or "batch" in name:
        return 1
    floating = _dtype(value).kind == "f"
    if floating and rank == 4:
        return (3, guess.height, guess.width)[axis - 1]
    if floating and rank == 2:
        return guess.samples
    return guess.length


class _Tables:
    """How many rows the tables have that an input picks from."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._consumers: dict[str, list[onnx.NodeProto]] = {}
        for node in loaded.graph.node:
            for name in node.input:
                self._consumers.setdefault(name, []).append(node)

    def rows(self, name: str) -> int | None:
        """The least number of rows of a table that ``name`` indexes; None if it indexes none."""
        todo, seen, found = [name], set[str](), list[int]()
        while todo and len(seen) < 100:
            current = todo.pop()
            if current in seen:
                continue
            seen.add(current)
            for node in self._consumers.get(current, ()):
                if node.op_type in _LAYOUT and node.input[0] == current:
                    todo.extend(node.output)
                elif node.op_type in {"Gather", "EmbedLayerNormalization"}:
                    found.extend(self._table(node, current))
        return min(found, default=None)

    def _table(self, node: onnx.NodeProto, index: str) -> Iterable[int]:
        data = node.input[0]
        if data != index and data in self._loaded.weights:
            axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
            yield self._loaded.weights.shape(data)[axis]


def _made(
    value: onnx.ValueInfoProto,
    shape: tuple[int, ...],
    tables: _Tables,
    guess: Guess,
    rng: np.random.Generator,
) -> Array:
    dtype, name = _dtype(value), value.name.lower()
    if dtype.kind == "f" or dtype.name == "bfloat16":
        if "mask" in name:
            return np.ones(shape, dtype)
        return rng.standard_normal(shape).astype(dtype)
    if dtype.kind == "b":
        return np.ones(shape, dtype)
    if dtype.kind not in "iu":
        raise TargetError(
            f"the input {value.name} is of {dtype}, which cannot be made up; expected it given"
        )
    rows = tables.rows(value.name)
    if "mask" in name or (rows is None and math.prod(shape) != 1 and "position" not in name):
        return np.full(shape, 1, dtype)
    if "position" in name:
        places = np.broadcast_to(np.arange(shape[-1] if shape else 1), shape)
        return np.asarray(places % (rows or 1 << 30), dtype)
    if rows is None:
        return np.full(shape, guess.length, dtype) if "len" in name else np.full(shape, 1, dtype)
    return rng.integers(0, max(rows, 1), shape).astype(dtype)
