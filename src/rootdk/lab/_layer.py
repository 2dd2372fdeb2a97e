"""A layer of self-attention to plant mistakes in: projections around a function of q, k and v."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from rootdk._lib.errors import ArgumentError
from rootdk._lib.extras import require
from rootdk.records import Diagnosis

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["INITS", "TORCH_GENERATOR", "Attend", "checked", "layer", "measured", "tokens"]

Attend = Callable[["Tensor", "Tensor", "Tensor"], "Tensor"]
"""From query, key and value, ``(batch, num_heads, tokens, head_dim)``, to the output."""

TORCH_GENERATOR = "mt19937 (torch.Generator)"

INITS = ("unit", "linear", "normal-0.02", "xavier", "kaiming")
"""Ways to initialise a projection; ``unit`` gives entries of size 1 for inputs of size 1."""


def layer(
    attend: Attend,
    *,
    width: int,
    num_heads: int,
    init: str,
    seed: int,
    gain: float = 1.0,
    tied: bool = False,
) -> nn.Module:
    """Return a layer without biases, its projections drawn from a seed.

    Those to query and key are multiplied by the gain; if they are tied, they are the same.

    Raises
    ------
    MissingExtraError
        If torch is not installed.
    """
    require("torch", extra="torch", purpose="to build a layer of attention")
    import torch
    from torch import nn

    class Attention(nn.Module):
        """Self-attention around one function."""

        def __init__(self) -> None:
            super().__init__()
            self.query, self.key, self.value, self.output = (
                nn.Linear(width, width, bias=False) for _ in range(4)
            )

        def forward(self, x: Tensor) -> Tensor:
            """Project, split, attend, merge, project."""
            q, k, v = (
                project(x).unflatten(-1, (num_heads, width // num_heads)).transpose(1, 2)
                for project in (self.query, self.key, self.value)
            )
            merged: Tensor = attend(q, k, v).transpose(1, 2).flatten(2)
            mixed: Tensor = self.output(merged)
            return mixed

    if width % num_heads:
        raise ArgumentError(f"width {width} is no multiple of num_heads, {num_heads}")
    with torch.random.fork_rng(devices=[]):
        model = Attention()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for project in (model.query, model.key, model.value, model.output):
            _initialise(project.weight, init, generator)
        model.query.weight.mul_(gain)
        model.key.weight.mul_(gain)
        if tied:
            model.key.weight.copy_(model.query.weight)
    return model.eval()


def _initialise(weight: Tensor, init: str, generator: Any) -> None:
    from torch import nn

    inputs = weight.shape[1]
    if init == "unit":
        weight.normal_(std=inputs**-0.5, generator=generator)
    elif init == "linear":
        # What the constructor of torch.nn.Linear does: uniform, of variance 1/(3·inputs).
        nn.init.kaiming_uniform_(weight, a=math.sqrt(5.0), generator=generator)
    elif init == "normal-0.02":
        weight.normal_(std=0.02, generator=generator)
    elif init == "xavier":
        nn.init.xavier_uniform_(weight, generator=generator)
    elif init == "kaiming":
        nn.init.kaiming_normal_(weight, generator=generator)
    else:
        raise ArgumentError.unexpected("init", init, f"one of {', '.join(INITS)}")


def tokens(*, batch: int, length: int, width: int, seed: int, directions: int = 0) -> Tensor:
    """Return normal inputs ``(batch, length, width)`` of standard deviation 1.

    With ``directions``, they lie in the span of so many directions that all tokens share.
    """
    require("torch", extra="torch", purpose="to draw the input of a layer")
    import torch

    generator = torch.Generator().manual_seed(seed)
    if not directions:
        return torch.randn(batch, length, width, generator=generator)
    shared = torch.randn(directions, width, generator=generator) / math.sqrt(directions)
    return torch.randn(batch, length, directions, generator=generator) @ shared


def checked(model: nn.Module, x: Tensor, *, state: str) -> Diagnosis:
    """Return what ``rootdk.check`` finds in a layer."""
    from rootdk.check import check

    return check(model, x, rootdk={"state": state})


def measured(diagnosis: Diagnosis, quantity: str) -> float:
    """Return a quantity at the only site of a layer, mean over heads; NaN if it is not known."""
    for site in diagnosis.sites:
        summary = diagnosis.summaries.get(site.name)
        if summary is not None and quantity in summary.quantities:
            return float(np.mean(np.asarray(summary[quantity])))
    return math.nan
