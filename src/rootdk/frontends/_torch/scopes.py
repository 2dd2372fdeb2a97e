"""Which module call an operation ran in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

from rootdk.frontends._torch.arguments import tensors_in
from rootdk.frontends._torch.frames import module_call
from rootdk.frontends._torch.recorder import Recorder

__all__ = ["Scopes"]

# torch.compile wraps a module in one that holds it under this name.
_COMPILED = "_orig_mod."


class Scopes:
    """Keeps the recorder's scope and module path in step with the module calls.

    The hooks are global ones, since hooks on a module switch off the fast paths that it has.
    """

    def __init__(
        self, model: torch.nn.Module, modules: Mapping[str, torch.nn.Module], recorder: Recorder
    ) -> None:
        self.model = model
        self.recorder = recorder
        named = [(name.replace(_COMPILED, ""), m) for name, m in modules.items()]
        self.paths = {id(m): name for name, m in named}
        self.modules = dict(named)
        self._stack: list[tuple[int, torch.nn.Module, str, FrameType | None]] = []
        self._calls = 0
        # Calls in which another that made a product has ended.
        self._projecting: set[int] = set()

    def training(self) -> bool:
        """Whether the innermost module of the model is in training mode."""
        return self._stack[-1][1].training if self._stack else self.model.training

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Follow module calls for the length of a block; hooks are gone afterwards."""
        handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def configs_at(self, path: str) -> list[Any]:
        """The configs of the modules around a path, the nearest first."""
        configs: list[Any] = []
        parts = path.split(".") if path else []
        for depth in range(len(parts), -1, -1):
            module = self.modules.get(".".join(parts[:depth]))
            config = _config_of(module)
            if config is not None and all(config is not c for c in configs):
                configs.append(config)
        return configs

    def _enter(self, module: torch.nn.Module, args: Any) -> None:
        self._calls += 1
        path = self.paths.get(id(module))
        if path is None:
            path = self._stack[-1][2] if self._stack else type(module).__name__
        self._stack.append((self._calls, module, path, module_call()))
        self._publish()

    def _leave(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        while self._stack:
            call, left, *_ = self._stack.pop()
            if left is module:
                self._mark_exit(call, output)
                outer = self._stack[-1][0] if self._stack else 0
                projects = call in self.recorder.calls_with_products or call in self._projecting
                if projects:
                    self._projecting.add(outer)
                self.recorder.retainer.leave(call, outer, tensors_in(output), projects=projects)
                break
        self._publish()

    def _mark_exit(self, call: int, output: Any) -> None:
        if call not in self.recorder.calls_with_products or not isinstance(output, torch.Tensor):
            return
        node = self.recorder.identities.find(output)
        if node is not None and node.scope and node.scope[-1] == call:
            node.attrs["exit_of"] = call
            if not self.recorder.retainer.holds(node):
                # A hook runs under the mode, which would record what is done here.
                with torch._C._DisableTorchDispatch():
                    self.recorder.retainer.keep(node, output.detach())

    def _publish(self) -> None:
        self.recorder.scope = tuple(call for call, *_ in self._stack)
        inner = self._stack[-1] if self._stack else None
        self.recorder.module_call = None if inner is None else (inner[0], inner[3])
        self.recorder.module_path = self._stack[-1][2] if self._stack else ""
        # Within a dispatch mode autocast looks switched off, so it is asked for here.
        self.recorder.autocast = current_autocast()


def _config_of(module: torch.nn.Module | None) -> Any:
    """The config of a module; None where there is none, or asking for it raises."""
    try:
        return getattr(module, "config", None)
    except Exception:  # noqa: BLE001 - whatever a model does when it is asked for one
        return None


def current_autocast() -> str | None:
    for device in ("cuda", "cpu"):
        if torch.is_autocast_enabled(device):
            return str(torch.get_autocast_dtype(device)).removeprefix("torch.")
    return None
