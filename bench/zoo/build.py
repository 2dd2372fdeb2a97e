"""From a configuration type to a small model with random weights."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
import transformers
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

from zoo.shrink import LEVELS, Level, configs, shrink

MOST_PARAMETERS = 420_000_000
SEED = 0
_ASKED_FOR = ("prediction_length",)  # has no default, and constructors insist on one


class NotBuilt(Exception):
    """Why an architecture has no row: the kind, then the sentence."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(f"{kind}: {why}")
        self.kind, self.why = kind, why


def names() -> list[str]:
    """The configuration types that transformers' own auto mapping knows."""
    return sorted(CONFIG_MAPPING_NAMES)


def config_of(name: str) -> Any:
    """The default configuration of a type."""
    try:
        config = CONFIG_MAPPING[name]()
    except ImportError as error:
        raise NotBuilt("dependency missing", _first(error)) from error
    except Exception as error:
        raise NotBuilt("default configuration refused", _first(error)) from error
    for part in configs(config):
        _own_backbone(part)
        for name in _ASKED_FOR:
            if hasattr(part, name) and getattr(part, name) is None:
                setattr(part, name, 8)
    return config


def _own_backbone(config: Any) -> None:
    """A backbone that an optional package would bring is replaced by one of transformers' own."""
    for name, value in list(vars(config).items()):
        if getattr(value, "model_type", None) == "timm_backbone":
            wanted = getattr(value, "out_indices", None) or [4]
            stages = sorted({min(max(int(i), 1), 4) for i in wanted} if len(wanted) > 1 else {4})
            own = CONFIG_MAPPING["resnet"](out_features=[f"stage{i}" for i in stages])
            setattr(config, name, own)
            if hasattr(config, "use_timm_backbone"):
                config.use_timm_backbone = False


def classes_of(name: str) -> list[Any]:
    """The model classes of a type: the bare model first, then those with a head."""
    kind = CONFIG_MAPPING[name]
    found: list[Any] = []
    for mapping in _mappings():
        try:
            if kind in mapping:
                value = mapping[kind]
                found += value if isinstance(value, (list, tuple)) else [value]
        except Exception:  # noqa: BLE001 - a broken entry is no class
            continue
    found += [] if found else _by_annotation(kind)
    missing = [c for c in found if _is_placeholder(c)]
    found = [c for c in dict.fromkeys(found) if not _is_placeholder(c)]
    if not found and missing:
        raise NotBuilt("dependency missing", f"{missing[0].__name__}: {missing[0]._backends}")
    if not found:
        raise NotBuilt("configuration of a part", "no model class takes it by itself")
    return found


def build(name: str, kind: Any, level: Level, attention: str) -> Any:
    """A model of this class in evaluation mode; seeded, so that two builds are alike."""
    config = config_of(name)
    shrink(config, level)
    return build_from(config, kind, attention)


def build_from(config: Any, kind: Any, attention: str) -> Any:
    with torch.device("meta"):
        size = sum(p.numel() for p in _new(config, kind, attention).parameters())
    if size > MOST_PARAMETERS:
        raise NotBuilt("too big", f"{size / 1e6:.0f} million parameters")
    torch.manual_seed(SEED)
    return _new(config, kind, attention).eval()


def _new(config: Any, kind: Any, attention: str) -> Any:
    if not hasattr(kind, "_from_config"):
        return kind(config)
    refused: Exception | None = None
    for choice in _choices(config, attention):
        try:
            return kind._from_config(config, attn_implementation=choice, dtype=torch.float32)
        except ValueError as error:
            if "does not support an attention implementation" not in str(error):
                raise
            refused = refused or error
    assert refused is not None
    raise refused


def _choices(config: Any, attention: str) -> Iterator[Any]:
    """One implementation everywhere; else, where a part has no other, eager in that part."""
    yield attention
    if attention != "eager":
        parts = list(getattr(config, "sub_configs", {}))
        for part in parts:
            yield {"": attention, part: "eager"}
        yield {"": attention} | dict.fromkeys(parts, "eager")


def levels() -> Iterator[Level]:
    yield from LEVELS


@cache
def _mappings() -> tuple[Any, ...]:
    found = [n for n in dir(modeling_auto) if n.startswith("MODEL_") and n.endswith("_MAPPING")]
    found.sort(key=lambda n: (n != "MODEL_MAPPING", "CAUSAL_LM" not in n, n))
    return tuple(getattr(modeling_auto, name) for name in found)


def _by_annotation(kind: Any) -> list[Any]:
    """The public model classes next to a configuration that say that they take it."""
    package = importlib.import_module(kind.__module__.rpartition(".")[0])
    found: list[Any] = []
    for info in pkgutil.iter_modules(package.__path__):
        if not info.name.startswith("modeling_"):
            continue
        try:
            module = importlib.import_module(f"{package.__name__}.{info.name}")
        except ImportError:
            continue
        found += [
            value
            for value in vars(module).values()
            if inspect.isclass(value)
            and issubclass(value, transformers.PreTrainedModel)
            and value.__module__ == module.__name__
            and getattr(value, "config_class", None) is kind
            and not value.__name__.endswith("PreTrainedModel")
        ]
    return sorted(found, key=lambda c: (not c.__name__.endswith("Model"), len(c.__name__)))


def _is_placeholder(kind: Any) -> bool:
    return hasattr(kind, "_backends")


def _first(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[:2])[:200]}"
