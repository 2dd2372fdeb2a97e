"""PyTorch: one forward pass of an unchanged module under a dispatch mode."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rootdk.frontends._base import Frontend, Trace

__all__ = ["TorchDispatch"]


class TorchDispatch(Frontend):
    """Accepts any ``torch.nn.Module``; torch is imported only when one is given."""

    name = "torch.nn.Module"

    def accepts(
        self, model: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> bool:
        """Whether ``model`` is a ``torch.nn.Module``."""
        torch = sys.modules.get("torch")
        return torch is not None and isinstance(model, torch.nn.Module)

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
        """One forward pass under no_grad, the module left as it was found."""
        from rootdk.frontends._torch.run import run

        return run(
            model, args, kwargs, rows=rows, seed=seed, statistics=statistics, progress=progress
        )
