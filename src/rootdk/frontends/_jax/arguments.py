"""What a function of JAX is called with: which arrays are parameters, which are inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from rootdk.frontends._graph.node import Kind
from rootdk.frontends._outcome import worth_saying

__all__ = ["Leaf", "Prepared", "is_array", "prepare"]


@dataclass(frozen=True)
class Leaf:
    """One array that the function is called with: its path, and what it is."""

    path: str
    array: Any
    kind: Kind


@dataclass(frozen=True)
class Prepared:
    """A function of arrays alone, the arrays, and what the function itself last gave."""

    function: Callable[..., Any]
    leaves: tuple[Leaf, ...]
    outcomes: list[Any]


def is_array(value: Any) -> bool:
    """Whether a leaf is an array; Python's own numbers stay what they are."""
    return isinstance(value, (jax.Array, np.ndarray, np.generic))


def prepare(
    function: Callable[..., Any],
    learned: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Prepared:
    """Split what ``function(learned, *args, **kwargs)`` is called with into arrays and the rest.

    ``learned`` holds parameters only (None where the function has none of its own). Among the
    arguments, the tree of arrays with the most leaves holds the parameters; a bare array does
    if it is no table of activations: of rank 2 at most, beside another of more.
    """
    everything = (learned, tuple(args), dict(kwargs))
    flat, structure = jax.tree_util.tree_flatten_with_path(everything)
    dynamic = [at for at, (_, value) in enumerate(flat) if is_array(value)]
    fixed = [None if is_array(value) else value for _, value in flat]
    parameters = _parameters(learned, [*args, *kwargs.values()])

    outcomes: list[Any] = []

    def of_arrays(*arrays: Any) -> Any:
        values = list(fixed)
        for at, array in zip(dynamic, arrays, strict=True):
            values[at] = array
        own, given, named = jax.tree_util.tree_unflatten(structure, values)
        out = function(own, *given, **named)
        outcomes[:] = [worth_saying(out)]
        if outcomes != [()]:
            return []
        # What is no array cannot leave a jaxpr, and nobody asks for it.
        return [leaf for leaf in jax.tree_util.tree_leaves(out) if isinstance(leaf, jax.Array)]

    leaves = [
        Leaf(_words(flat[at][0]), flat[at][1], _kind(flat[at][1], parameters)) for at in dynamic
    ]
    return Prepared(of_arrays, tuple(leaves), outcomes)


def _words(path: Sequence[Any]) -> str:
    """The path of a leaf within its argument, with dots."""
    parts = (getattr(key, "name", getattr(key, "key", getattr(key, "idx", key))) for key in path)
    return ".".join(str(part) for part in parts)


def _kind(value: Any, parameters: set[int]) -> Kind:
    if not _is_float(value):
        return Kind.INDEX
    return Kind.PARAMETER if id(value) in parameters else Kind.ACTIVATION


def _is_float(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    return isinstance(dtype, np.dtype) and dtype.kind in "fVc"


def _floats(tree: Any) -> list[Any]:
    return [leaf for leaf in jax.tree_util.tree_leaves(tree) if is_array(leaf) and _is_float(leaf)]


def _parameters(learned: Any, values: list[Any]) -> set[int]:
    """The identities of the arrays that are parameters."""
    found = _floats(learned)
    if not found:
        trees = [_floats(value) for value in values if not is_array(value)]
        tables = [tree for tree in trees if any(np.ndim(array) > 1 for array in tree)]
        found = max(tables, key=len, default=[])
    if not found:
        bare = [value for value in values if is_array(value) and _is_float(value)]
        if any(np.ndim(array) > 2 for array in bare):
            found = [array for array in bare if np.ndim(array) <= 2]
    return {id(array) for array in found}
