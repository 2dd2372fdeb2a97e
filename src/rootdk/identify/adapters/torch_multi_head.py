"""``torch.nn.functional.multi_head_attention_forward`` with identity projections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rootdk._lib.extras import is_loaded, require
from rootdk._lib.layouts import parse_layout
from rootdk.identify.adapted import Adapted
from rootdk.identify.adapters._base import Adapter, Wanted, described
from rootdk.identify.libraries import library_named
from rootdk.identify.vocabulary import Word

__all__ = ["TorchMultiHead"]


class TorchMultiHead(Adapter):
    """Sequence first, heads side by side; a boolean mask is True where it hides."""

    name = "torch-multi-head"

    def accepts(self, function: Any) -> bool:
        """Whether it is the function itself."""
        return is_loaded("torch") and function is _function()

    def adapt(self, function: Any, wanted: Wanted) -> Adapted:
        """Return the function between projections that change nothing."""
        return Adapted(
            name=described(function, wanted),
            call=_call,
            libraries=(library_named("torch"),),
            layout=parse_layout("sb(hd)"),
            words={
                "mask": Word("attn_mask", "mask", "inverted"),
                "bias": Word("attn_mask", "bias"),
                "key_padding": Word("key_padding_mask", "key_padding", "inverted"),
                "weights": Word("need_weights", "weights"),
                "dropout": Word("dropout_p", "dropout"),
                "training": Word("training", "training"),
            },
            base={"num_heads": Word("num_heads", "num_heads"), "training": False, "dropout_p": 0.0},
            convert=_convert,
            same_width=True,
            imports=("import torch", *_SCRIPT),
            expression="multi_head",
            remarks=("the projections of query, key, value and output are identities here",),
        )

    def targets(self) -> Mapping[str, Callable[[], Any]]:
        """Return the function."""
        return {"torch.multi_head_attention_forward": _function}


def _function() -> Any:
    torch = require("torch", extra="torch", purpose="to call its attention")
    return torch.nn.functional.multi_head_attention_forward


def _call(query: Any, key: Any, value: Any, own: dict[str, Any]) -> Any:
    torch = require("torch", extra="torch", purpose="to call its attention")
    width, own = query.shape[-1], dict(own)
    eye = torch.eye(width, dtype=query.dtype, device=query.device)
    heads, dropout = own.pop("num_heads"), own.pop("dropout_p")
    return _function()(
        query, key, value, width, heads, torch.cat([eye] * 3), None, None, None, False,
        dropout, eye, None, **own,
    )  # fmt: skip


def _convert(meaning: str, value: Any, shape: tuple[int, int, int, int]) -> dict[str, Any] | None:
    """Return a mask or bias as ``(queries, keys)``, or one a sample and head."""
    if meaning not in ("mask", "bias"):
        return None
    batch, heads, queries, keys = shape
    if value.shape[:2] == (1, 1):
        whole = np.broadcast_to(value[0, 0], (queries, keys))
    else:
        whole = np.broadcast_to(value, shape).reshape(batch * heads, queries, keys)
    return {"attn_mask": np.array(~whole if meaning == "mask" else whole)}


_SCRIPT = (
    "def multi_head(query, key, value, *, num_heads, dropout_p, **own):",
    "    eye = torch.eye(query.shape[-1])",
    "    return torch.nn.functional.multi_head_attention_forward(",
    "        query, key, value, query.shape[-1], num_heads, torch.cat([eye] * 3), None, None,",
    "        None, False, dropout_p, eye, None, **own)[0]",
)
