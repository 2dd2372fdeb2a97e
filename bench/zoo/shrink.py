"""Make a configuration small without changing what its attention computes.

Head counts and widths are divided by one number, so the width of a head stays what the
architecture's default is. Nothing here knows a model by name: the fields of a configuration are
told apart by what they are called.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

VOCABULARY = 300
EXPERTS = 4
LARGEST_IMAGE = 224
MOST_LAYERS = 6

_HEADS = re.compile(r"(^|_)(?<!d_)(?<!dim_)heads?$|(^|_)heads?_(per_|kv)|^n_head_kv$")
_FEWER_HEADS = re.compile(r"kv|key_value|group")
_OTHER_HEADS = re.compile(r"mamba|linear|index|ssm|loss|conv|pred_")
_WIDTH = re.compile(
    r"hidden_(size|dim)|intermediate|d_model|d_ff|n_embd|n_inner|d_inner|d_embed|ffn|embed(ding)?_"
    r"(dim|size)|^embed_dims?$|(^|_)dims?$|width|mlp_dim|feedforward|(shape|coordinate)_size|"
    r"output_size|channels|units|_filters|projector|expert_dim|emb_dim|emb_size|lora_rank"
)
_NO_WIDTH = re.compile(
    r"head|rope|rotary|num_channels|^in_chan|audio_channels|input_|codebook|kv_channels|d_kv|state|"
    r"group|mel|feature_size|patch|image|window|position|^max|vocab|temperature|conv_dim|"
    r"kernel|ratio|mult|spectrogram|tdnn|xvector|upsample|_out_channels$|out_channels$|codevector"
    r"|latent_channels|speaker|^channels$|output_dim|key_dim|qk_|v_dim|quant|n_fft"
)
_DEPTH = re.compile(r"(^|_)(layers?|depth|blocks)$")
_NO_DEPTH = re.compile(
    r"conv|adapter|feat|lstm|residual|shared|res_block|nextn|net_layers|flow|wavenet|window|insert|"
    r"_level|resnet|mlp|fpn|vision_feature|no_rope|cross_attn_k|dense|iou|head_depth|mask_head|"
    r"random|max_|min_|mem_blocks|pooler|refine|hidden_layer$|feature_layer|c2f|downsample"
)
_STAGE_DEPTHS = re.compile(r"^depths?$|depths$|layers_per_stage|blocks_per_stage|num_layers$")
_INDEX_LIST = re.compile(r"ind(ex|ic)|idx|layer_ids|_layers?$|^attention_blocks|_blocks$|hook_ids")
_TOKEN = re.compile(r"_ids?$|token_(id|index)|(boi|eoi|boa|eoa)_token|_index$|^(unk|mask)_index")
_NO_TOKEN = re.compile(r"layer|ignore|vq|head_in|codebook|block")
_EXPERTS = re.compile(
    r"^(moe_)?(num|n)_(routed_|local_)?experts$|num_expert$|moe_num_experts|n_expert"
)
_CHOSEN = re.compile(
    r"experts_per_tok|topk$|top_k_experts|moe_k$|experts_top_k|expert_top_k|num_selects"
)
_EVERY = re.compile(r"(interval|period|pattern|frequency|every_n\w*|sparse_step)$")


# Defaults that are None, where a constructor or a forward needs a number.
_UNSET = {
    "n_routed_experts": 4, "num_experts": 4, "num_local_experts": 4, "n_shared_experts": 1,
    "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "moe_intermediate_size": 64,
    "top_k_experts": 2, "first_k_dense_replace": 1, "norm_topk_prob": True, "vocab_size": 300,
    "head_dim": 64, "context_length": 16, "vocabulary_map": {"<image>": 290},
    "default_language": "en_XX",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Level:
    """How far to shrink. ``divisor`` None means: as far as about four heads."""

    name: str
    widths: bool = True
    depth: int | None = 2
    images: bool = True
    vocabulary: bool = True
    experts: bool = True
    fill: bool = False


LEVELS = (
    Level(name="small"),
    Level(name="small, unset numbers set", fill=True),
    Level(name="full width", widths=False),
    Level(name="full images", images=False),
    Level(name="full width, full images", widths=False, images=False),
    Level(name="four layers", depth=4),
    Level(name="full depth", depth=None),
    Level(name="full width and depth", widths=False, depth=None),
    Level(name="only experts", widths=False, depth=None, images=False, vocabulary=False),
)


@dataclass
class _Shared:
    """What must be alike in all parts of a composite configuration."""

    divisor: int
    tokens: dict[int, int] = field(default_factory=dict)

    def token(self, old: int) -> int:
        if old < VOCABULARY - 20:
            return old
        return self.tokens.setdefault(old, VOCABULARY - 1 - len(self.tokens) % 20)


def shrink(config: Any, level: Level) -> None:
    """Shrink a configuration and all configurations in it, in place."""
    parts = list(configs(config))
    shared = _Shared(divisor=_divisor(parts) if level.widths else 1)
    for part in parts:
        _shrink_part(part, level, shared)


def configs(config: Any) -> Iterator[Any]:
    """Yield a configuration and every one inside it, each once."""
    seen: set[int] = set()
    waiting = [config]
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        for value in vars(one).values():
            waiting += [value] if _is_config(value) else []


def _is_config(value: Any) -> bool:
    return hasattr(value, "model_type") and hasattr(value, "to_dict") and hasattr(value, "__dict__")


def _numbers(value: Any) -> list[int]:
    if isinstance(value, bool):
        return []
    if isinstance(value, int):
        return [value]
    if isinstance(value, (list, tuple)):
        return [n for v in value for n in _numbers(v)]
    return []


def _divisor(parts: list[Any]) -> int:
    heads = [
        number
        for part in parts
        for name, value in vars(part).items()
        if _HEADS.search(name) and not _FEWER_HEADS.search(name) and not _OTHER_HEADS.search(name)
        for number in _numbers(value)
        if number > 0
    ]
    if not heads:
        return 1
    common, most = math.gcd(*heads), max(heads)
    wanted = [d for d in range(1, common + 1) if common % d == 0 and most // d >= 4]
    found = max(wanted, default=1)
    return common if found == 1 and most > 16 else found


def _shrink_part(config: Any, level: Level, shared: _Shared) -> None:
    fields = {k: v for k, v in vars(config).items() if not _is_config(v)}
    new: dict[str, Any] = {}
    if level.depth is not None:
        new |= _shallow(fields, level.depth)
    if level.fill:
        config._experts_implementation = "eager"
        count = new.get("num_hidden_layers", fields.get("num_hidden_layers", 2))
        lists = {"layer_types": "full_attention", "mlp_layer_types": "dense"}
        new |= {n: [v] * count for n, v in lists.items() if fields.get(n, 0) is None}
        new |= {name: number for name, number in _UNSET.items() if fields.get(name, 0) is None}
    for name, value in fields.items():
        value = new.get(name, value)
        if value is None or isinstance(value, (bool, str)):
            continue
        changed = _changed(name, value, level, shared)
        if changed is not value:
            new[name] = changed
    if level.widths:
        _fit_kv_heads(fields, new)
    for name, value in new.items():
        if value != fields[name]:
            _assign(config, name, value)


def _assign(config: Any, name: str, value: Any) -> None:
    try:
        setattr(config, name, value)
    except Exception:  # noqa: BLE001 - a validator's veto: the class is then built as it is
        object.__setattr__(config, name, value)


def _changed(name: str, value: Any, level: Level, shared: _Shared) -> Any:
    if level.vocabulary and name.endswith(("vocab_size", "vocab_sizes")) and _numbers(value):
        return _each(value, lambda n: min(n, VOCABULARY))
    if level.vocabulary and _TOKEN.search(name) and not _NO_TOKEN.search(name):
        return _each(value, shared.token)
    if level.experts:
        if _EXPERTS.search(name):
            return _each(value, lambda n: min(n, EXPERTS))
        if _CHOSEN.search(name):
            return _each(value, lambda n: min(n, 2))
        if name in {"n_group", "topk_group", "num_expert_group"}:
            return 1
    if name == "num_queries":
        return _each(value, lambda n: min(n, 30))
    if level.images and name in {"image_size", "img_size", "pretrain_image_size"}:
        return _each(value, lambda n: min(n, LARGEST_IMAGE))
    if shared.divisor > 1:
        if _HEADS.search(name):
            return _each(value, lambda n: max(1, n // shared.divisor))
        if _WIDTH.search(name) and not _NO_WIDTH.search(name):
            return _each(value, lambda n: n if n % shared.divisor else n // shared.divisor)
    return value


def _each(value: Any, change: Any) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_each(v, change) for v in value)
    return value


def _fit_kv_heads(fields: dict[str, Any], new: dict[str, Any]) -> None:
    heads = new.get("num_attention_heads", fields.get("num_attention_heads"))
    for name in ("num_key_value_heads", "n_head_kv", "num_kv_heads"):
        kv = new.get(name, fields.get(name))
        if isinstance(heads, int) and isinstance(kv, int) and kv and heads % kv:
            new[name] = math.gcd(heads, kv)


def _shallow(fields: dict[str, Any], depth: int) -> dict[str, Any]:
    """Return the fields that say how many layers there are, for fewer: one of each kind."""
    new: dict[str, Any] = {}
    main = _main_depth(fields)
    kept = list(range(min(depth, main))) if main else []
    per_layer = {
        name: value
        for name, value in fields.items()
        if main and isinstance(value, (list, tuple)) and len(value) == main
        and not name.startswith("_out") and not _is_indices(value)
    }  # fmt: skip
    chosen = {name: value for name, value in fields.items() if _chooses(name, value, main)}
    marks = {name: [i in value for i in range(main)] for name, value in chosen.items()}
    if (per_layer or chosen) and depth == 2:
        kept = _one_of_each(per_layer | marks, main)
    count = len(kept)
    for name, value in fields.items():
        if isinstance(value, (list, tuple)) and value and _STAGE_DEPTHS.search(name):
            new[name] = _each(value, lambda n: min(n, depth))
        elif name in per_layer:
            new[name] = type(value)(value[i] for i in kept)
        elif name in chosen:
            new[name] = type(value)(at for at, old in enumerate(kept) if old in value)
        elif isinstance(value, bool):
            continue
        elif isinstance(value, int) and _EVERY.search(name) and value > 2:
            new[name] = 2
        elif isinstance(value, int) and name.endswith("layer_offset") and value > 1:
            new[name] = 1
        elif isinstance(value, int) and re.search(r"dense_(replace|layers)$", name):
            new[name] = min(value, 1)
        elif name == "num_kv_shared_layers":
            new[name] = 0
        elif isinstance(value, int) and _DEPTH.search(name) and not _NO_DEPTH.search(name):
            new[name] = count if value == main and count else min(value, depth)
        elif main and value and _INDEX_LIST.search(name) and _are_layers(value, main):
            new[name] = type(value)(_moved(v, kept, main) for v in value)
    stages = fields.get("stage_names")
    if main and stages and len(stages) == main + 1:
        new["stage_names"] = stages[: count + 1]
        for name, last in (("_out_features", stages[count]), ("_out_indices", count)):
            if fields.get(name):
                new[name] = [last]
    return new


def _main_depth(fields: dict[str, Any]) -> int:
    names = "num_hidden_layers n_layer n_layers num_layers depth encoder_layers layers".split()
    found = (fields.get(name) for name in names)
    return next((v for v in found if isinstance(v, int) and not isinstance(v, bool) and v), 0)


def _chooses(name: str, value: Any, main: int) -> bool:
    """Whether a field lists some of the layers."""
    if not main or not isinstance(value, (list, tuple)) or not _INDEX_LIST.search(name):
        return False
    whole = all(isinstance(v, int) and not isinstance(v, bool) and 0 <= v < main for v in value)
    return bool(value) and whole and list(value) == sorted(set(value)) and name[:4] != "_out"


def _are_layers(value: Any, main: int) -> bool:
    listed = isinstance(value, (list, tuple))
    return listed and all(
        isinstance(v, int) and not isinstance(v, bool) and v <= main for v in value
    )


def _is_indices(value: Any) -> bool:
    return list(value) == list(range(len(value)))


def _one_of_each(per_layer: dict[str, Any], main: int) -> list[int]:
    seen: dict[str, int] = {}
    for index in range(main):
        kind = repr([value[index] for value in per_layer.values()])
        seen.setdefault(kind, index)
    kept = sorted(seen.values())[:MOST_LAYERS]
    for index in range(main):
        if len(kept) >= 2:
            break
        if index not in kept:
            kept.append(index)
    return sorted(kept)


def _moved(index: int, kept: list[int], main: int) -> int:
    if index < 0:
        return max(index, -len(kept))
    if index == main:
        return len(kept)
    return max(0, sum(k <= index for k in kept) - 1)
