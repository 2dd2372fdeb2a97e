"""Functions with the signature of flash-attn's ``flash_attn_func``: sequence before heads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rootdk.identify.adapted import Adapted
from rootdk.identify.adapters._base import Adapter, Wanted
from rootdk.identify.adapters.plain import Plain

__all__ = ["FlashAttn"]

_SIGNATURE = frozenset({"softmax_scale", "causal", "window_size"})


class FlashAttn(Adapter):
    """Read as any other signature, but for the layout and for ``deterministic``."""

    name = "flash-attn"
    order = 20

    def accepts(self, function: Any) -> bool:
        """Whether the signature has what flash-attn's has."""
        return callable(function) and set(self.parameters(function)) >= _SIGNATURE

    def adapt(self, function: Any, wanted: Wanted) -> Adapted:
        """Return the function; ``deterministic`` is about its backward pass there."""
        adapted = Plain().adapt(function, replace(wanted, layout=wanted.layout or "bshd"))
        words = {name: word for name, word in adapted.words.items() if word.own != "deterministic"}
        base = {name: given for name, given in adapted.base.items() if name != "deterministic"}
        return replace(adapted, words=words, base=base)
