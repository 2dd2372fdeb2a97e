"""``torch.nn.attention.flex_attention``: masks are block masks, biases functions of positions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rootdk._lib.extras import is_loaded, require
from rootdk._lib.layouts import parse_layout
from rootdk.identify.adapted import Adapted
from rootdk.identify.adapters._base import Adapter, Wanted, described
from rootdk.identify.libraries import library_named
from rootdk.identify.vocabulary import Word

__all__ = ["FlexAttention"]

_MODULE = "torch.nn.attention.flex_attention"


class FlexAttention(Adapter):
    """A mask is given as ``block_mask``, a bias as a ``score_mod`` that adds it."""

    name = "flex-attention"

    def accepts(self, function: Any) -> bool:
        """Whether it is the function itself."""
        return is_loaded(_MODULE) and function is _function()

    def adapt(self, function: Any, wanted: Wanted) -> Adapted:
        """Return the function, uncompiled as it is."""
        return Adapted(
            name=described(function, wanted),
            call=lambda query, key, value, own: function(query, key, value, **own),
            libraries=(library_named("torch"),),
            layout=parse_layout("bhsd"),
            words={
                "mask": Word("block_mask", "mask"),
                "bias": Word("score_mod", "bias"),
                "scale": Word("scale", "scale"),
                "gqa": Word("enable_gqa", "gqa"),
            },
            convert=_convert,
            imports=(f"from {_MODULE} import flex_attention",),
            expression="flex_attention",
            dtypes=("float16", "bfloat16", "float32"),
            remarks=("called as it is; torch.compile may replace it by another kernel",),
        )

    def targets(self) -> Mapping[str, Callable[[], Any]]:
        """Return the function."""
        return {"torch.flex_attention": _function}


def _function() -> Any:
    module = require(_MODULE, extra="torch", purpose="to call its attention")
    return module.flex_attention


def _convert(meaning: str, value: Any, shape: tuple[int, int, int, int]) -> dict[str, Any] | None:
    if meaning not in ("mask", "bias"):
        return None
    torch = require("torch", extra="torch", purpose="to call its attention")
    module = require(_MODULE, extra="torch", purpose="to call its attention")
    batch, heads, queries, keys = shape
    table = torch.from_numpy(value).broadcast_to(shape).contiguous()
    if meaning == "bias":
        return {"score_mod": lambda score, b, h, i, j: score + table.to(score.dtype)[b, h, i, j]}
    visible = module.create_block_mask(
        lambda b, h, i, j: table[b, h, i, j], batch, heads, queries, keys, device="cpu"
    )
    return {"block_mask": visible}
