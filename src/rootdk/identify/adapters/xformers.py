"""Functions with the signature of xformers' ``memory_efficient_attention``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rootdk.identify.adapted import Adapted
from rootdk.identify.adapters._base import Adapter, Wanted
from rootdk.identify.adapters.plain import Plain

__all__ = ["Xformers"]

_SIGNATURE = frozenset({"attn_bias", "p", "scale", "op"})


class Xformers(Adapter):
    """Sequence before heads; ``p`` is the dropout, ``attn_bias`` a tensor that is added."""

    name = "xformers"
    order = 20

    def accepts(self, function: Any) -> bool:
        """Whether the signature has what xformers' has."""
        return callable(function) and set(self.parameters(function)) >= _SIGNATURE

    def adapt(self, function: Any, wanted: Wanted) -> Adapted:
        """Return the function."""
        meanings = {"p": "dropout", **wanted.arguments}
        layout = wanted.layout or "bshd"
        return Plain().adapt(function, replace(wanted, layout=layout, arguments=meanings))
