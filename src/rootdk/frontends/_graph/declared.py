"""What a model's config declares of scale and initial weights, read by meaning, never by name."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rootdk.records import AttentionSite, Expected

__all__ = ["declared_initial_std", "declared_scale"]

_AGREES = 1e-3

# Keys whose value is itself the multiplier of the scores.
_MULTIPLIERS = (
    "attention_multiplier",
    "softmax_scale",
    "attn_scale",
    "attention_scale",
    "attn_softmax_scale",
    "attn_output_multiplier",
    "attn_scaling",
    "attention_scaling",
)
# Keys whose value stands where head_dim usually stands: the scale is its inverse root.
_WIDTHS = ("query_pre_attn_scalar", "query_key_dim_for_scale")


def declared_scale(configs: Iterable[Any], site: AttentionSite) -> Expected | None:
    """The declaration that explains the site's scale; else the first that does not hold.

    A declaration that agrees with 1/√head_dim is none. Only a number in a config counts; an
    attribute of a module called ``scale`` does not.
    """
    if site.effective_scale is None or site.scale_ratio is None:
        return None
    if abs(site.scale_ratio - 1.0) <= _AGREES:
        return None
    broken: Expected | None = None
    for config in configs:
        declared = _as_mapping(config)
        explained = (*_by_words(declared, site), *_by_ranks(declared, site))
        for value, where in explained:
            if abs(site.effective_scale - value) <= _AGREES * abs(value):
                return Expected(value=value, where=where, by="config")
        for value, where in _declarations(declared, site):
            if not math.isfinite(value) or value == 0:
                continue
            if abs(site.effective_scale - value) <= _AGREES * abs(value):
                return Expected(value=value, where=where, by="config")
            if broken is None and not _ordinary(value, site):
                broken = Expected(value=value, where=where, by="config")
    return broken


_INITIAL = frozenset("init initial initializer initialiser initialization".split())
_SPREAD = frozenset("std stddev deviation range".split())
_PLAIN = frozenset("method normal standard weight weights".split())


def declared_initial_std(configs: Iterable[Any]) -> Expected | None:
    """The standard deviation of initial weights that the nearest config declares, if one does.

    The words of its key must speak of that and of nothing else: an ``initializer_factor``
    multiplies deviations of its own, and an ``embed_init_std`` is not of the projections.
    """
    for config in configs:
        for key, raw in _as_mapping(config).items():
            value, words = _number(raw), frozenset(str(key).lower().split("_"))
            named = words & _INITIAL and words & _SPREAD
            if not named or not words <= _INITIAL | _SPREAD | _PLAIN:
                continue
            if value is not None and value > 0 and math.isfinite(value):
                return Expected(value=value, where=f"{key} = {raw!r}", by="config")
    return None


def _ordinary(value: float, site: AttentionSite) -> bool:
    return abs(value - site.standard_scale) <= _AGREES * site.standard_scale


def _as_mapping(config: Any) -> Mapping[str, Any]:
    if isinstance(config, Mapping):
        return config
    found: dict[str, Any] = {}
    for name in dir(type(config)):
        # Class-level defaults of dataclass-like configs.
        if not name.startswith("_"):
            value = type(config).__dict__.get(name)
            if isinstance(value, (int, float, bool)):
                found[name] = value
    with contextlib.suppress(TypeError):
        found.update(vars(config))
    return found


def _declarations(
    config: Mapping[str, Any], site: AttentionSite, depth: int = 0
) -> Iterator[tuple[float, str]]:
    standard = site.standard_scale
    for key in _MULTIPLIERS:
        value = _number(config.get(key))
        if value is not None:
            yield value, f"{key} = {config[key]!r}"
            yield value * standard, f"{key} = {config[key]!r}, times 1/√head_dim"
    for key in _WIDTHS:
        value = _number(config.get(key))
        if value is not None and value > 0:
            yield value**-0.5, f"{key} = {config[key]!r}"
    yield from _flags(config, site)
    yield from _rotary(config, site)
    if depth == 0:
        for key, value in config.items():
            if isinstance(value, Mapping) or (
                "attn" in str(key).lower() and hasattr(value, "__dict__")
            ):
                for number, where in _declarations(_as_mapping(value), site, 1):
                    yield number, f"{key}.{where}"


_WHAT = frozenset("attn attention qk query softmax score scores".split())
_HOW = frozenset("scale scaling multiplier temperature scalar".split())


def _by_words(config: Mapping[str, Any], site: AttentionSite) -> Iterator[tuple[float, str]]:
    """Numbers under a key that speaks of a scale of attention, in each way of using them.

    They only ever explain a scale that they agree with, and never make an expectation.
    """
    standard = site.standard_scale
    for key, raw in config.items():
        value, words = _number(raw), set(str(key).lower().split("_"))
        if value is None or value <= 0 or not (words & _WHAT and words & _HOW):
            continue
        for used in (value, value * standard, standard / value, value**-0.5, 1.0 / value):
            yield used, f"{key} = {raw!r}"


def _by_ranks(config: Mapping[str, Any], site: AttentionSite) -> Iterator[tuple[float, str]]:
    """A low-rank query enlarged by √(hidden/rank), if such a factor stands on the query or key.

    Like the words, it only ever explains what the graph shows; that a rank is declared alone
    says nothing.
    """
    wide = _number(config.get("hidden_size"))
    shown = [f.value for f in site.factors if f.place in {"query", "key"} and f.value is not None]
    for key, raw in config.items():
        rank = _number(raw)
        if not str(key).endswith("lora_rank") or wide is None or rank is None or rank <= 0:
            continue
        gain = math.sqrt(wide / rank)
        if any(abs(value - gain) <= _AGREES * gain for value in shown):
            where = f"the widths: √(hidden_size/{key}) = √({config['hidden_size']}/{raw})"
            yield site.standard_scale * gain, where


def _flags(config: Mapping[str, Any], site: AttentionSite) -> Iterator[tuple[float, str]]:
    standard = site.standard_scale
    unscaled = config.get("scale_attn_weights")
    by_layer = config.get("scale_attn_by_inverse_layer_idx")
    base = 1.0 if unscaled is False else standard
    if unscaled is False:
        yield 1.0, "scale_attn_weights = False"
    if by_layer is True and site.layer is not None:
        yield base / (site.layer + 1), "scale_attn_by_inverse_layer_idx = True"
    for key, value in config.items():
        name = str(key).lower()
        if value is True and name.startswith("mup") and "scale" in name:
            yield 1.0 / site.head_dim, f"{key} = True (1/head_dim)"
        power = _number(value)
        if power is not None and name in {"attn_scale_power", "attention_scale_power"}:
            yield float(site.head_dim) ** -power, f"{key} = {value!r}"


def _rotary(config: Mapping[str, Any], site: AttentionSite) -> Iterator[tuple[float, str]]:
    """YaRN: mscale² in the scale, or a factor in the cosines and sines of both sides."""
    for key in ("rope_scaling", "rope_parameters"):
        rope = config.get(key)
        if not isinstance(rope, Mapping):
            continue
        nested = [v for v in rope.values() if isinstance(v, Mapping)]
        for part in (rope, *nested):
            factor = _number(part.get("factor"))
            gains = []
            for name in ("mscale_all_dim", "mscale"):
                weight = _number(part.get(name))
                if weight is not None and factor is not None and factor > 1:
                    gains.append((0.1 * weight * math.log(factor) + 1.0, f"{key}.{name}"))
            declared = _number(part.get("attention_factor"))
            if declared is not None:
                gains.append((declared, f"{key}.attention_factor"))
            if factor is not None and factor > 1:
                gains.append((0.1 * math.log(factor) + 1.0, f"{key}.factor (YaRN)"))
                longest = _number(config.get("max_position_embeddings"))
                original = _number(part.get("original_max_position_embeddings"))
                if longest and original and original > 1:
                    ratio = max(longest / original, factor)
                    gains.append(
                        (math.sqrt(1 + math.log(ratio) / math.log(original)), f"{key} (longrope)")
                    )
            for gain, where in gains:
                yield site.standard_scale * gain * gain, where


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value)
