"""Functions, and the module libraries of JAX, as functions of their parameters and inputs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from rootdk.frontends._jax.names import named_calls

__all__ = ["Model", "model_of", "modules_named"]


@dataclass(frozen=True)
class Model:
    """``function(learned, *args)``; ``root`` is the outermost name in name stacks, if known.

    ``training`` says whether dropout is meant to be on; JAX itself has no such mode.
    """

    function: Callable[..., Any]
    learned: Any
    name: str
    root: str | None = None
    training: bool = True


def model_of(model: Any) -> Model:
    """Read a module of Flax or Equinox as a function of its parameters; or take a function."""
    name = getattr(model, "__name__", type(model).__name__)
    nnx, linen, equinox = (sys.modules.get(n) for n in ("flax.nnx", "flax.linen", "equinox"))
    if nnx is not None and isinstance(model, nnx.Module):
        graph, state = nnx.split(model)
        return Model(
            lambda state, *args, **kwargs: nnx.merge(graph, state)(*args, **kwargs), state, name
        )
    if equinox is not None and isinstance(model, equinox.Module):
        return Model(lambda module, *args, **kwargs: module(*args, **kwargs), model, name)
    owner = getattr(model, "__self__", model)
    if linen is not None and isinstance(owner, linen.Module):
        applied = owner.apply if owner is model else model
        root = type(owner).__name__
        return Model(lambda _, *args, **kwargs: applied(*args, **kwargs), None, root, root)
    return Model(lambda _, *args, **kwargs: model(*args, **kwargs), None, name)


@contextmanager
def modules_named() -> Iterator[None]:
    """Scopes named after the paths of modules, whichever of the libraries are loaded."""
    with ExitStack() as stack:
        for library in ("flax.nnx", "equinox"):
            base = getattr(sys.modules.get(library), "Module", None)
            if base is not None:
                stack.enter_context(named_calls(base))
        yield
