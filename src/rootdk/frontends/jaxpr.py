"""JAX: the jaxpr of an unchanged function, run equation by equation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from rootdk._lib.arrays import is_jax
from rootdk.frontends._base import Frontend, Trace

__all__ = ["Jaxpr"]

_MODULES = (
    ("flax.nnx", "Module"),
    ("flax.linen", "Module"),
    ("equinox", "Module"),
    ("keras", "Layer"),
)
# What jax.jit and its relatives return has both of these.
_COMPILED = ("lower", "trace")


class Jaxpr(Frontend):
    """Accepts a function that is called with JAX arrays; modules of Flax, Equinox and Keras.

    A function of JAX looks like any other, so its arguments tell; jax is never imported unasked.
    """

    name = "a function of JAX arrays, or a Flax, Equinox or Keras module"

    def accepts(
        self, model: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> bool:
        """Whether ``model`` is a module, compiled by JAX, or called with JAX arrays."""
        jax = sys.modules.get("jax")
        if jax is None or not callable(model) or isinstance(model, type) or _is_torch(model):
            return False
        if any(_is_a(model, name, kind) for name, kind in _MODULES):
            return True
        if all(hasattr(model, name) for name in _COMPILED):
            return True
        return any(is_jax(leaf) for leaf in _leaves(jax, [*args, *(kwargs or {}).values()]))

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
        """One run of the function's jaxpr."""
        from rootdk.frontends._jax.run import run

        return run(
            model, args, kwargs, rows=rows, seed=seed, statistics=statistics, progress=progress
        )


def _is_a(model: object, module: str, kind: str) -> bool:
    loaded = sys.modules.get(module)
    known = getattr(loaded, kind, None)
    return isinstance(known, type) and isinstance(model, known)


def _is_torch(model: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def _leaves(jax: ModuleType, values: list[Any]) -> Iterator[Any]:
    return iter(jax.tree_util.tree_leaves(values))
