"""Functions of transformers' attention interface: module, query, key, value, mask, scaling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from rootdk._lib.extras import require
from rootdk._lib.layouts import parse_layout
from rootdk.identify.adapted import Adapted
from rootdk.identify.adapters._base import Adapter, Wanted, described, importable, source_of
from rootdk.identify.libraries import library_named
from rootdk.identify.vocabulary import Word

__all__ = ["TransformersInterface"]

_FIRST = ["module", "query", "key", "value", "attention_mask"]
_OPTIONAL = {
    "scaling": Word("scaling", "scale"),
    "is_causal": Word("is_causal", "causal"),
    "sliding_window": Word("sliding_window", "window"),
    "softcap": Word("softcap", "softcap"),
    "s_aux": Word("s_aux", "sink"),
}


class TransformersInterface(Adapter):
    """Heads before the sequence going in, after it coming out; the mask is a bias."""

    name = "transformers-interface"
    order = 20

    def accepts(self, function: Any) -> bool:
        """Whether the first five parameters are the interface's."""
        return callable(function) and [*self.parameters(function)][:5] == _FIRST

    def adapt(self, function: Any, wanted: Wanted) -> Adapted:
        """Return the function with a stand-in for the module, in evaluation mode."""
        parameters = self.parameters(function)
        words = {word.meaning: word for name, word in _OPTIONAL.items() if name in parameters}
        base: dict[str, Any] = {}
        if "scaling" in parameters and parameters["scaling"].default is parameters["scaling"].empty:
            base["scaling"] = words["scale"]
        if "is_causal" in parameters:
            base["is_causal"] = False
        imports, expression = importable(function)

        def call(query: Any, key: Any, value: Any, own: dict[str, Any]) -> Any:
            own = {"attention_mask": None, **own}
            return function(_module(query, key), query, key, value, **own)[0]

        return Adapted(
            name=described(function, wanted),
            call=call,
            libraries=(library_named("torch"),),
            layout=parse_layout(wanted.layout or "bhsd"),
            output_layout=parse_layout("bshd"),
            words={**words, "bias": Word("attention_mask", "bias")},
            base=base,
            source=source_of(function),
            imports=("from types import SimpleNamespace", *imports, *_SCRIPT),
            expression=expression,
            call_text="function(module_for(query, key), query_, key_, value_, "
            '**{"attention_mask": None, **arguments})[0]',
            versions=("transformers",),
        )

    def targets(self) -> Mapping[str, Callable[[], Any]]:
        """Return what transformers runs by default, and what it runs when weights are wanted."""
        return {"transformers.sdpa": _sdpa, "transformers.eager": _eager}


def _module(query: Any, key: Any) -> Any:
    """Return what the functions ask of the module that calls them."""
    return SimpleNamespace(
        num_key_value_groups=query.shape[1] // key.shape[1],
        training=False,
        is_causal=False,
        layer_idx=0,
        config=SimpleNamespace(_attn_implementation="sdpa"),
    )


_SCRIPT = (
    "def module_for(query, key):",
    "    groups = query.shape[1] // key.shape[1]",
    "    return SimpleNamespace(num_key_value_groups=groups, training=False, is_causal=False)",
)


def _sdpa() -> Any:
    name = "transformers.integrations.sdpa_attention"
    module = require(name, extra="transformers", purpose="to call its attention")
    return module.sdpa_attention_forward


def _eager() -> Any:
    name = "transformers.models.llama.modeling_llama"
    module = require(name, extra="transformers", purpose="to call its attention")
    return module.eager_attention_forward
