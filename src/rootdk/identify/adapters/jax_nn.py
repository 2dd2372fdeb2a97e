"""``jax.nn.dot_product_attention``: sequence before heads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rootdk._lib.extras import is_loaded, require
from rootdk.identify.adapted import Adapted
from rootdk.identify.adapters._base import Adapter, Wanted
from rootdk.identify.adapters.plain import Plain
from rootdk.identify.libraries import library_named

__all__ = ["JaxNn"]


class JaxNn(Adapter):
    """Read as any other signature, but for the layout."""

    name = "jax-nn"

    def accepts(self, function: Any) -> bool:
        """Whether it is the function itself."""
        return is_loaded("jax.nn") and function is _function()

    def adapt(self, function: Any, wanted: Wanted) -> Adapted:
        """Return the function."""
        adapted = Plain().adapt(function, replace(wanted, layout=wanted.layout or "bshd"))
        return replace(
            adapted,
            name=wanted.name or "jax.nn.dot_product_attention",
            libraries=(library_named("jax"),),
            imports=("import jax",),
            expression="jax.nn.dot_product_attention",
        )

    def targets(self) -> Mapping[str, Callable[[], Any]]:
        """Return the function."""
        return {"jax.nn.dot_product_attention": _function}


def _function() -> Any:
    module = require("jax.nn", extra="jax", purpose="to call its attention")
    return module.dot_product_attention
