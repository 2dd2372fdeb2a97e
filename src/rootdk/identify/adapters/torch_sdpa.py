"""``torch.nn.functional.scaled_dot_product_attention``, and each of its backends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from rootdk._lib.errors import TargetError
from rootdk._lib.extras import is_loaded, require
from rootdk._lib.layouts import parse_layout
from rootdk.identify.adapted import Adapted
from rootdk.identify.adapters._base import Adapter, Wanted, described
from rootdk.identify.libraries import library_named
from rootdk.identify.vocabulary import Word

__all__ = ["TorchSdpa"]

_BACKENDS = {
    "math": "MATH",
    "flash": "FLASH_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
}
_NAME = "torch.nn.functional.scaled_dot_product_attention"


class _OnBackend:
    """The function on one backend only: where that cannot serve a call, it raises."""

    def __init__(self, backend: str) -> None:
        self.backend = backend

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        torch = require("torch", extra="torch", purpose="to call its attention")
        backends = require("torch.nn.attention", extra="torch", purpose="to choose a backend")
        with backends.sdpa_kernel(getattr(backends.SDPBackend, _BACKENDS[self.backend])):
            return torch.nn.functional.scaled_dot_product_attention(*args, **kwargs)


class TorchSdpa(Adapter):
    """``attn_mask`` is a mask when boolean, a bias when floating."""

    name = "torch-sdpa"

    def accepts(self, function: Any) -> bool:
        """Whether it is the function itself, or one made by :meth:`targets`."""
        if isinstance(function, _OnBackend):
            return True
        return is_loaded("torch") and function is _function()

    def adapt(self, function: Any, wanted: Wanted) -> Adapted:
        """Return the function."""
        self.refuse_arguments(wanted)
        backend = function.backend if isinstance(function, _OnBackend) else None
        return Adapted(
            name=wanted.name
            or (f"torch.sdpa.{backend}" if backend else described(function, wanted)),
            call=lambda query, key, value, own: function(query, key, value, **own),
            libraries=(library_named("torch"),),
            layout=parse_layout(wanted.layout or "bhsd"),
            words={
                "mask": Word("attn_mask", "mask"),
                "bias": Word("attn_mask", "bias"),
                "dropout": Word("dropout_p", "dropout"),
                "causal": Word("is_causal", "causal"),
                "scale": Word("scale", "scale"),
                "gqa": Word("enable_gqa", "gqa"),
            },
            imports=_imports(backend),
            expression="on_backend" if backend else _NAME,
        )

    def targets(self) -> Mapping[str, Callable[[], Any]]:
        """Return the function, and it on each backend."""
        backends = {f"torch.sdpa.{name}": partial(_OnBackend, name) for name in _BACKENDS}
        return {"torch.sdpa": _function, **backends}

    @staticmethod
    def refuse_arguments(wanted: Wanted) -> None:
        """Refuse a map of arguments: those of a known function are known.

        Raises
        ------
        TargetError
            If there is one.
        """
        if wanted.arguments:
            raise TargetError(
                "arguments are given for a function whose arguments are known; expected none"
            )


def _function() -> Any:
    torch = require("torch", extra="torch", purpose="to call its attention")
    return torch.nn.functional.scaled_dot_product_attention


def _imports(backend: str | None) -> tuple[str, ...]:
    if backend is None:
        return ("import torch",)
    return (
        "import torch",
        "from torch.nn.attention import SDPBackend, sdpa_kernel",
        "def on_backend(*args, **kwargs):",
        f"    with sdpa_kernel(SDPBackend.{_BACKENDS[backend]}):",
        f"        return {_NAME}(*args, **kwargs)",
    )
