"""What the arguments of attention functions are called, and in which form they take a value.

A *meaning* is ours; a *form* says how a canonical value becomes the function's own:

=================  =================================================================
``plain``          as it is
``inverse``        1/value (a temperature divides where a scale multiplies)
``inverted``       True and False exchanged (``key_padding_mask`` is True where it hides)
=================  =================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["MEANINGS", "OPERANDS", "Word", "meaning_of", "operand_of"]


@dataclass(frozen=True)
class Word:
    """One argument: the function's own name, our meaning, and the form of its value."""

    own: str
    meaning: str
    form: str = "plain"


OPERANDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "query": ("query", "q", "queries", "query_states", "xq", "query_layer", "q_tensor"),
        "key": ("key", "k", "keys", "key_states", "xk", "key_layer", "k_tensor"),
        "value": ("value", "v", "values", "value_states", "xv", "value_layer", "v_tensor"),
    }
)

_WORDS: Mapping[str, str] = {
    "mask": "mask attn_mask attention_mask atten_mask masks visible allowed",
    "key_padding": "padding_mask key_mask kv_mask valid_mask",
    "hidden_keys": "key_padding_mask",
    "bias": "bias attn_bias attention_bias position_bias rel_bias relative_bias additive_mask",
    "causal": "is_causal causal use_causal use_causal_mask causal_attention",
    "scale": (
        "scale softmax_scale sm_scale scaling attn_scale attention_scale scale_factor qk_scale "
        "scaling_factor"
    ),
    "temperature": "temperature temper tau",
    "softcap": (
        "softcap soft_cap logits_soft_cap logit_cap attn_logits_soft_cap logit_softcap "
        "softcapping capping logit_capping cap"
    ),
    "window": (
        "window window_size local_window_size sliding_window sliding_window_size "
        "attention_window local_window"
    ),
    "gqa": "enable_gqa gqa",
    "dropout": (
        "dropout_p dropout_rate dropout attn_dropout attention_dropout dropout_prob p_dropout"
    ),
    "training": "training is_training train",
    "eval": "deterministic inference eval_mode",
    "sink": "sink sinks s_aux attn_sink attention_sink learnable_sink sink_logits",
    "weights": (
        "return_weights need_weights output_attentions return_attn_probs return_attn_weights "
        "return_attention_scores return_attention return_attn"
    ),
    "alibi": "alibi_slopes",
    "key_lengths": "key_value_seq_lengths kv_lengths key_lengths kv_lens seqlens_k",
    "num_heads": "num_heads n_heads heads nheads n_head num_attention_heads nhead",
    "num_kv_heads": "num_kv_heads n_kv_heads kv_heads num_key_value_heads",
    "head_dim": "head_dim d_k dk head_size d_head dim_head dim_per_head",
    "hidden": "d_model embed_dim hidden_size hidden model_dim dim_model",
}
_ABOUT = frozenset("attn attention atten sdpa softmax logit logits score scores qk".split())
"""What an author may put before a name without changing what it means."""
_UNITS = frozenset("value factor".split())
"""What may stand behind it."""
_BY_NAME = {name: meaning for meaning, names in _WORDS.items() for name in names.split()}
_FORMS = {
    "temperature": ("scale", "inverse"),
    "hidden_keys": ("key_padding", "inverted"),
    "hidden_mask": ("mask", "inverted"),
    "eval": ("training", "inverted"),
}

MEANINGS = tuple(sorted({*_WORDS, *_FORMS}))
"""Every word that may be given as the meaning of an argument."""


def operand_of(name: str) -> str | None:
    """Return which of query, key and value a parameter's name stands for, None for another.

    Examples
    --------
    >>> operand_of("Q"), operand_of("key_states"), operand_of("mask")
    ('query', 'key', None)
    """
    plain = name.lower().strip("_")
    return next((operand for operand, names in OPERANDS.items() if plain in names), None)


def meaning_of(name: str) -> Word | None:
    """Return what a parameter's name means, None if it is not in the vocabulary.

    Examples
    --------
    >>> meaning_of("sm_scale"), meaning_of("temperature")
    (Word(own='sm_scale', meaning='scale', form='plain'), Word(..., form='inverse'))
    >>> meaning_of("attn_logit_softcapping")
    Word(own='attn_logit_softcapping', meaning='softcap', form='plain')
    >>> meaning_of("colour") is None
    True
    """
    meaning = next((_BY_NAME[one] for one in _spellings(name) if one in _BY_NAME), None)
    return None if meaning is None else word(name, meaning)


def _spellings(name: str) -> Iterator[str]:
    """Yield a name, and what is left of it without words that say what it is about."""
    parts = name.lower().strip("_").split("_")
    yield "_".join(parts)
    while len(parts) > 1 and (parts[0] in _ABOUT or parts[-1] in _UNITS):
        parts = parts[1:] if parts[0] in _ABOUT else parts[:-1]
        yield "_".join(parts)


def word(own: str, meaning: str) -> Word:
    """Return the word for an argument of a meaning, which may name a form as well."""
    base, form = _FORMS.get(meaning, (meaning, "plain"))
    return Word(own, base, form)
