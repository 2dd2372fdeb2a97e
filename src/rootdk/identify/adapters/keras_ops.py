"""``keras.ops.dot_product_attention`` on the backend that Keras runs on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rootdk._lib.errors import TargetError
from rootdk._lib.extras import is_loaded, require
from rootdk.identify.adapted import Adapted
from rootdk.identify.adapters._base import Adapter, Wanted
from rootdk.identify.adapters.plain import Plain
from rootdk.identify.libraries import libraries

__all__ = ["KerasOps"]


class KerasOps(Adapter):
    """Sequence before heads; its arrays are those of the backend."""

    name = "keras-ops"

    def accepts(self, function: Any) -> bool:
        """Whether it is the function itself."""
        return is_loaded("keras.ops") and function is _function()

    def adapt(self, function: Any, wanted: Wanted) -> Adapted:
        """Return the function.

        Raises
        ------
        TargetError
            If Keras runs on a backend whose arrays are not known here.
        """
        keras = require("keras", extra="jax", purpose="to call its attention")
        backend = keras.backend.backend()
        known = tuple(one for one in libraries() if one.name == backend)
        if not known:
            names = ", ".join(one.name for one in libraries())
            raise TargetError(f"keras runs on {backend}; expected one of {names}")
        adapted = Plain().adapt(function, replace(wanted, layout=wanted.layout or "bshd"))
        return replace(
            adapted,
            name=wanted.name or "keras.ops.dot_product_attention",
            libraries=known,
            imports=("import keras",),
            expression="keras.ops.dot_product_attention",
            versions=("keras",),
            remarks=(f"keras runs on {backend} here",),
        )

    def targets(self) -> Mapping[str, Callable[[], Any]]:
        """Return the function."""
        return {"keras.ops.dot_product_attention": _function}


def _function() -> Any:
    module = require("keras.ops", extra="jax", purpose="to call its attention")
    return module.dot_product_attention
