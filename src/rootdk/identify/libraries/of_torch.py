"""PyTorch."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rootdk._lib.arrays import is_torch
from rootdk._lib.extras import is_loaded, require
from rootdk.identify.libraries._base import Call, Library


class _Torch(Library):
    name = "torch"
    order = 1
    dtypes = ("float16", "bfloat16", "float32", "float64")
    imports = ("import torch",)
    make = "torch.from_numpy(array.copy())"
    take = "result.detach().float().numpy()"
    cast = ".to(torch.{dtype})"
    gradients_exist = True

    def is_loaded(self) -> bool:
        return is_loaded("torch")

    def is_installed(self) -> bool:
        return importlib.util.find_spec("torch") is not None

    def owns(self, value: object) -> bool:
        return is_torch(value)

    def array(
        self, values: npt.NDArray[Any], *, dtype: str | None = None, device: str | None = None
    ) -> Any:
        torch = require("torch", extra="torch", purpose="to call a torch function")
        made = torch.from_numpy(np.array(values))
        if dtype is not None and values.dtype.kind == "f":
            made = made.to(getattr(torch, dtype))
        return made if device is None else made.to(device)

    def gradients(
        self, call: Call, operands: Sequence[Any], cotangent: npt.NDArray[Any]
    ) -> list[npt.NDArray[Any]]:
        torch = require("torch", extra="torch", purpose="to take gradients")
        with torch.enable_grad():
            leaves = [operand.detach().clone().requires_grad_() for operand in operands]
            output = call(leaves)
            along = torch.from_numpy(np.array(cotangent)).to(output)
            found = torch.autograd.grad(output, leaves, along, allow_unused=True)
        return [
            np.zeros(leaf.shape) if one is None else self.to_numpy(one)
            for one, leaf in zip(found, leaves, strict=True)
        ]

    def strided(self, array: Any) -> Any | None:
        return array.transpose(-1, -2).contiguous().transpose(-1, -2)


TORCH = _Torch()
