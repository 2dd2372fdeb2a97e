"""Functions, and the module libraries of JAX, as functions of their parameters and inputs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from rootdk._lib.errors import ArgumentError
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
    """Read a module of Flax, Equinox or Keras as a function of its parameters; or a function."""
    name = getattr(model, "__name__", type(model).__name__)
    nnx, linen, equinox = (sys.modules.get(n) for n in ("flax.nnx", "flax.linen", "equinox"))
    if nnx is not None and isinstance(model, nnx.Module):
        graph, state = nnx.split(model)
        return Model(
            lambda state, *args, **kwargs: nnx.merge(graph, state)(*args, **kwargs), state, name
        )
    if equinox is not None and isinstance(model, equinox.Module):
        return Model(lambda module, *args, **kwargs: module(*args, **kwargs), model, name)
    keras = sys.modules.get("keras")
    if keras is not None and isinstance(model, keras.Layer):
        return _keras(model, name)
    owner = getattr(model, "__self__", model)
    if linen is not None and isinstance(owner, linen.Module):
        applied = owner.apply if owner is model else model
        root = type(owner).__name__
        return Model(lambda _, *args, **kwargs: applied(*args, **kwargs), None, root, root)
    return Model(lambda _, *args, **kwargs: model(*args, **kwargs), None, name)


def _keras(layer: Any, name: str) -> Model:
    """A layer as a function of its variables, which stay as they are."""
    if not layer.built:
        raise ArgumentError(
            f"{name} has no variables yet; expected a layer that was built, or called once"
        )
    trained, other = layer.trainable_variables, layer.non_trainable_variables
    values = {v.path: v.value for v in (*trained, *other)}

    def function(values: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        one, two = ([values[v.path] for v in group] for group in (trained, other))
        return layer.stateless_call(one, two, *args, **kwargs)[0]

    return Model(function, values, name, layer.name)


@contextmanager
def modules_named() -> Iterator[None]:
    """Scopes named after the paths of modules, whichever of the libraries are loaded."""
    with ExitStack() as stack:
        for library in ("flax.nnx", "equinox"):
            base = getattr(sys.modules.get(library), "Module", None)
            if base is not None:
                stack.enter_context(named_calls(base))
        yield
