"""Questions that a walk asks about the entries of side operands, answered from arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from rootdk._lib.arrays import Array, dtype_name, is_bool, namespace, to_numpy
from rootdk.frontends._graph.node import Node
from rootdk.frontends._sites.numbers import count, eps_of, turned

__all__ = ["ArrayValues", "is_complex"]

_LOOKED_AT = 1 << 22


class ArrayValues:
    """Answers from the arrays that a recording holds on the nodes."""

    def tensor(self, node: Node) -> Array | None:
        """The array of a node, if it is held."""
        return node.attrs.get("tensor")

    def uniform(self, node: Node) -> float | None:
        """The value of an array whose entries are all equal; None otherwise."""
        array = self.tensor(node)
        if array is None or not 0 < count(array) <= _LOOKED_AT:
            return None
        if is_complex(array) or is_bool(array):
            return None
        first = array.reshape((-1,))[0]
        return float(first) if bool(namespace(array).all(array == first)) else None

    def binary(self, node: Node) -> bool:
        """Whether every entry is 0 or 1, and both occur."""
        array = self.tensor(node)
        if array is None or count(array) == 0 or is_complex(array):
            return False
        if is_bool(array):
            return True
        xp = namespace(array)
        zeros = array == 0
        return bool(xp.all(zeros | (array == 1))) and bool(xp.any(zeros))

    def rotation_gain(self, first: Node, second: Node) -> float | None:
        """√(first² + second²) where that is one number everywhere; None otherwise."""
        one, two = self.tensor(first), self.tensor(second)
        if one is None or two is None:
            return None
        squares = _wide(one) ** 2 + _wide(two) ** 2
        return _one_number(np.sqrt(squares), eps_of(one))

    def modulus(self, node: Node) -> float | None:
        """The absolute value of complex entries where it is one number; None otherwise."""
        array = self.tensor(node)
        return None if array is None else _one_number(np.abs(_wide(array)), 1e-6)

    def isometry(self, node: Node) -> float | None:
        """c where the matrix is c times an orthogonal one; None otherwise."""
        array = self.tensor(node)
        if array is None or len(array.shape) < 2 or array.shape[-1] != array.shape[-2]:
            return None
        matrix = _wide(array)
        gram = turned(matrix) @ matrix
        size = np.diagonal(gram, axis1=-2, axis2=-1)
        gain = _one_number(np.sqrt(size), 1e-6)
        off = gram - size[..., None] * np.eye(gram.shape[-1])
        if gain is None or float(np.abs(off).max()) > 1e-4 * gain**2:
            return None
        return gain


def is_complex(array: Array) -> bool:
    return dtype_name(array).startswith("complex")


def _wide(array: Array) -> Any:
    """The entries on the host, in float64 or complex128."""
    values = to_numpy(array)
    return values.astype(np.complex128 if is_complex(array) else np.float64, copy=False)


def _one_number(values: Any, eps: float) -> float | None:
    if values.size == 0:
        return None
    low, high = float(values.min()), float(values.max())
    return (low + high) / 2 if high - low <= max(1e-4, 4 * eps) * high else None
