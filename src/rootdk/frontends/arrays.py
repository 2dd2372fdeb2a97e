"""Saved tensors: query, key and what else was stored of each attention call, from anywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rootdk._lib.errors import ArgumentError
from rootdk.frontends._base import Frontend, Trace

__all__ = ["SavedTensors"]

SUFFIXES = (".npz", ".safetensors")


class SavedTensors(Frontend):
    """Accepts the path of a ``.npz`` or ``.safetensors`` file, or a mapping of arrays.

    The names of the arrays follow a scheme, ``<site>.query``, ``<site>.key`` and so on, which
    docs/saved-tensors.md describes. Needs no framework.
    """

    name = "a .npz or .safetensors file, or a mapping of arrays, of saved tensors"

    def accepts(
        self, model: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> bool:
        """Whether ``model`` is such a path, or a mapping with a query in it."""
        if isinstance(model, str | Path):
            return Path(model).suffix.lower() in SUFFIXES
        if not isinstance(model, Mapping):
            return False
        names = [
            f"{name}.{field}" if field else str(name)
            for name, value in model.items()
            for field in (value if isinstance(value, Mapping) else ("",))
        ]
        return any(name == "query" or name.endswith(".query") for name in names)

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
        """Read the arrays site by site; nothing is run."""
        from rootdk.frontends._arrays.run import run

        if args or kwargs:
            raise ArgumentError(
                "inputs are given for saved tensors, which run nothing; expected the file alone"
            )
        return run(model, rows=rows, seed=seed, statistics=statistics, progress=progress)
