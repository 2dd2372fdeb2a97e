"""Leave the model as it was found; tell whether it is at initialisation."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import torch

from rootdk._lib.errors import ArgumentError

__all__ = ["Parts", "Untouched", "model_state", "padding_kept", "require_values"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Parts:
    """What a model consists of, looked up once: a walk through one takes a millisecond.

    Attributes
    ----------
    modules, parameters
        By name, each once.
    buffers
        Each once.
    """

    modules: Mapping[str, torch.nn.Module]
    parameters: Mapping[str, torch.nn.Parameter]
    buffers: tuple[torch.Tensor, ...]

    @classmethod
    def of(cls, model: torch.nn.Module) -> Self:
        """Return the parts of a model."""
        return cls(
            modules=dict(model.named_modules()),
            parameters=dict(model.named_parameters()),
            buffers=tuple(model.buffers()),
        )


class Untouched:
    """Restores random state, buffers, parameters and inputs that a forward pass wrote to."""

    def __init__(self, parts: Parts, inputs: list[torch.Tensor]) -> None:
        self._owned: dict[int, torch.Tensor] = {}
        self._copies: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        for tensor in (*parts.parameters.values(), *parts.buffers, *inputs):
            self._owned.setdefault(_key(tensor), tensor)
        # A scripted module hands out no dictionary to restore; its buffers cannot be rebound.
        own = (m for m in parts.modules.values() if not isinstance(m, torch.jit.ScriptModule))
        self._buffers = [(m, dict(m._buffers)) for m in own]

    def before_write(self, tensor: torch.Tensor) -> None:
        """Copy a tensor of the model's that is about to be written in place."""
        key = _key(tensor)
        owned = self._owned.get(key)
        if owned is not None and key not in self._copies:
            self._copies[key] = (owned, owned.detach().clone())

    @contextmanager
    def restored(self, seed: int | None) -> Iterator[None]:
        """Run a block under a seed, then put everything back, also when it raises."""
        numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
        with ExitStack() as stack:
            devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
            stack.enter_context(torch.random.fork_rng(devices=devices))
            if seed is not None:
                torch.manual_seed(seed)
            try:
                yield
            finally:
                np.random.set_state(numpy_state)  # noqa: NPY002
                random.setstate(python_state)
                with torch.no_grad():
                    for owned, copy in self._copies.values():
                        owned.copy_(copy)
                for module, buffers in self._buffers:
                    module._buffers.clear()
                    module._buffers.update(buffers)


@contextmanager
def padding_kept(parts: Parts) -> Iterator[None]:
    """Run a block in which encoders of torch do not pack padded batches into nested tensors.

    The layers that run are the same, on the same tokens; only so do their axes have a size.
    """
    packing = [
        module
        for module in parts.modules.values()
        if isinstance(module, torch.nn.TransformerEncoder)
        and getattr(module, "use_nested_tensor", False) is True
    ]
    try:
        for module in packing:
            module.use_nested_tensor = False
        yield
    finally:
        for module in packing:
            module.use_nested_tensor = True


def require_values(parts: Parts, inputs: list[torch.Tensor]) -> None:
    """Raise ``ArgumentError`` for weights or inputs on the meta device, which hold no numbers."""
    weights = list(parts.parameters.items())
    given = [(f"input {at}", tensor) for at, tensor in enumerate(inputs)]
    for named, enough in ((weights, len(weights)), (given, 1)):
        empty = [name for name, tensor in named if tensor.device.type == "meta"]
        # Some weights may be there: they are loaded when their turn comes.
        if empty and len(empty) >= enough:
            raise ArgumentError(
                f"{empty[0]} is on the meta device, which holds no numbers; expected weights and "
                "inputs on a device that does (model.to_empty(device=...), then the weights)"
            )


def _key(tensor: torch.Tensor) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError):
        return -id(tensor)


def model_state(parts: Parts) -> tuple[Literal["init", "trained", "unknown"], str]:
    """At initialisation every norm's weight is exactly 1 (or 0) and its bias exactly 0."""
    norms = 0
    for name, module in parts.modules.items():
        if not _is_norm(module):
            continue
        weight = getattr(module, "weight", None)
        bias = getattr(module, "bias", None)
        for which, tensor, plain in (("weight", weight, (1.0, 0.0)), ("bias", bias, (0.0,))):
            if not isinstance(tensor, torch.Tensor) or tensor.numel() == 0:
                continue
            if tensor.device.type == "meta":
                continue
            norms += 1
            if not any(bool((tensor == value).all()) for value in plain):
                return (
                    "trained",
                    f"the {which} of {name or 'the model'} is not at its initial value",
                )
    if not norms:
        return "unknown", "the model has no norm to tell by"
    return "init", f"all {norms} norm parameters are at their initial values"


def _is_norm(module: Any) -> bool:
    if "norm" not in type(module).__name__.lower():
        return False
    children = next(module.children(), None)
    return children is None
