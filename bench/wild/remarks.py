"""Why some of these models deviate, read in their source by a person; only the page uses this."""

from __future__ import annotations

__all__ = ["remark"]

REMARKS: dict[str, str] = {
    "chronos-forecasting: Chronos-2": "No factor, as in T5. The smaller initial query that "
    "`_init_weights` means to give (chronos/chronos2/model.py:298) does not come about with "
    "transformers 5.24: after construction its standard deviation is 0.050, and 0.0010 once "
    "`_init_weights` is called on the layer by hand.",
    "diffusers: Attention, unscaled": "Meant: the case asks for `scale_qk=False`.",
    "timm: davit_tiny": "Attention over channels: the product runs over the tokens, the scale is "
    "taken from the channels of a head (line 198).",
    "torchtune: Gemma 2": "Meant: `query_pre_attn_scalar` (line 124), an argument of the builder "
    "that no configuration of the model holds.",
    "torchvision: maxvit_t": "The scale is taken from the width of all heads (line 167; "
    "docs/found.md).",
}


def remark(name: str, source: str) -> str:
    """The sentence on a model, by the title of its case."""
    return REMARKS.get(name, "")
