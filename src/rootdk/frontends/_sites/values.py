"""Questions that a walk asks about the entries of side operands, answered from tensors."""

from __future__ import annotations

import torch

from rootdk.frontends._graph.node import Node

__all__ = ["TensorValues"]

_LOOKED_AT = 1 << 22


class TensorValues:
    """Answers from the tensors that the recorder holds on the nodes."""

    def tensor(self, node: Node) -> torch.Tensor | None:
        """The tensor of a node, if it is held."""
        held = node.attrs.get("tensor")
        return held if isinstance(held, torch.Tensor) else None

    def uniform(self, node: Node) -> float | None:
        """The value of a tensor whose entries are all equal; None otherwise."""
        tensor = self.tensor(node)
        if tensor is None or tensor.numel() == 0 or tensor.numel() > _LOOKED_AT:
            return None
        if tensor.is_complex() or tensor.dtype == torch.bool:
            return None
        first = tensor.reshape(-1)[0]
        return float(first) if bool((tensor == first).all()) else None

    def binary(self, node: Node) -> bool:
        """Whether every entry is 0 or 1, and both occur."""
        tensor = self.tensor(node)
        if tensor is None or tensor.numel() == 0 or tensor.is_complex():
            return False
        if tensor.dtype == torch.bool:
            return True
        zeros = tensor == 0
        return bool((zeros | (tensor == 1)).all()) and bool(zeros.any())

    def rotation_gain(self, first: Node, second: Node) -> float | None:
        """√(first² + second²) where that is one number everywhere; None otherwise."""
        one, two = self.tensor(first), self.tensor(second)
        if one is None or two is None:
            return None
        squares = one.double() ** 2 + two.double() ** 2
        return _one_number(squares.sqrt(), float(torch.finfo(_float(one.dtype)).eps))

    def modulus(self, node: Node) -> float | None:
        """The absolute value of complex entries where it is one number; None otherwise."""
        tensor = self.tensor(node)
        if tensor is None:
            return None
        return _one_number(tensor.abs().double(), 1e-6)

    def isometry(self, node: Node) -> float | None:
        """c where the matrix is c times an orthogonal one; None otherwise."""
        tensor = self.tensor(node)
        if tensor is None or tensor.dim() < 2 or tensor.shape[-1] != tensor.shape[-2]:
            return None
        matrix = tensor.double()
        gram = matrix.transpose(-1, -2) @ matrix
        size = gram.diagonal(dim1=-2, dim2=-1)
        gain = _one_number(size.sqrt(), 1e-6)
        off = gram - torch.diag_embed(size)
        if gain is None or float(off.abs().max()) > 1e-4 * gain**2:
            return None
        return gain


def _float(dtype: torch.dtype) -> torch.dtype:
    return dtype if dtype.is_floating_point else torch.float32


def _one_number(values: torch.Tensor, eps: float) -> float | None:
    if values.numel() == 0:
        return None
    low, high = float(values.min()), float(values.max())
    return (low + high) / 2 if high - low <= max(1e-4, 4 * eps) * high else None
