"""What a transformers model is fed: its own tokenizer's tokens, or something synthetic."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from rootdk._lib.errors import ArgumentError, TargetError
from rootdk._lib.extras import require
from rootdk.cli._loading import Request

__all__ = ["Fed", "inputs_of"]

Kwargs = dict[str, Any]
Fed = tuple[Kwargs, tuple[str, ...], Callable[[], tuple[tuple[Any, ...], Kwargs]] | None]

_SYNTHETIC_TOKENS = 128
_TEXT_TOKENS = 512
_AUDIO_SAMPLES = 16000
_SPECIAL = ("pad", "bos", "eos", "sep", "cls", "mask", "unk", "decoder_start")


def inputs_of(model: Any, tokenizer: Any | None, request: Request) -> Fed:
    """Return keyword arguments for a transformers model, remarks, and how to make others.

    Raises
    ------
    ArgumentError
        If ``max_tokens`` is less than 1, or no token is left of a text.
    TargetError
        If the model wants something that cannot be made up.
    """
    if request.max_tokens is not None and request.max_tokens < 1:
        raise ArgumentError.unexpected("--max-tokens", request.max_tokens, "at least 1")
    if request.text is not None:
        return _from_text(model, tokenizer, request)
    return _synthetic(model, request)


def _from_text(model: Any, tokenizer: Any | None, request: Request) -> Fed:
    if tokenizer is None:
        raise TargetError("a text is given and the target has no tokenizer; expected one beside it")
    length = request.max_tokens or _TEXT_TOKENS
    length = min(length, _positions(model), int(min(tokenizer.model_max_length, 10**9)))
    whole = len(tokenizer(request.text, verbose=False)["input_ids"])
    known = _parameters(model)

    def encoded(most: int) -> Kwargs:
        batch = tokenizer(request.text, return_tensors="pt", truncation=True, max_length=most)
        kwargs = {name: value for name, value in batch.items() if name in known}
        if getattr(model.config, "is_encoder_decoder", False):
            kwargs["decoder_input_ids"] = kwargs["input_ids"].clone()
        return kwargs

    kwargs = encoded(length)
    tokens = int(kwargs["input_ids"].shape[-1])
    if tokens == 0:
        raise ArgumentError("the text gives no token; expected at least one")
    remarks = (f"the text is cut from {whole} to {tokens} tokens",) if tokens < whole else ()
    return kwargs, remarks, (lambda: ((), encoded(_other(tokens)))) if tokens > 8 else None


def _synthetic(model: Any, request: Request) -> Fed:
    kind = getattr(model, "main_input_name", "input_ids")
    if kind == "input_ids":
        length = min(request.max_tokens or _SYNTHETIC_TOKENS, _positions(model))
        remark = (
            f"the input is {length} random tokens (seed {request.seed}): the scale is judged as "
            "on any input, but spreads and entropies are not those of real text; give --text"
        )

        def again() -> tuple[tuple[Any, ...], Kwargs]:
            return (), _tokens(model, _other(length), request.seed)

        return _tokens(model, length, request.seed), (remark,), again if length > 8 else None
    makers = {
        "pixel_values": _pixels,
        "input_values": _samples,
        "input_features": _features,
    }
    if kind not in makers:
        raise TargetError(
            f"{type(model).__name__} wants {kind}, which cannot be made up; "
            "expected a file.py:callable that returns (model, args, kwargs)"
        )
    shape = makers[kind](model)
    kwargs = {kind: _noise(model, shape, request.seed)}
    if getattr(model.config, "is_encoder_decoder", False):
        kwargs["decoder_input_ids"] = _tokens(model, 16, request.seed)["input_ids"]
    return kwargs, (f"the input is noise of shape {shape} (seed {request.seed})",), None


def _other(length: int) -> int:
    """Return a shorter length that divides neither the first nor a usual width."""
    return max(2, length - length // 4 - 1)


def _torch() -> Any:
    return require("torch", extra="torch", purpose="to make inputs")


def _text_config(model: Any) -> Any:
    config = model.config
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def _positions(model: Any) -> int:
    config = _text_config(model)
    known = (getattr(config, name, None) for name in ("max_position_embeddings", "n_positions"))
    return min((n for n in known if isinstance(n, int) and n > 0), default=10**9)


def _parameters(model: Any) -> set[str]:
    return set(inspect.signature(model.forward).parameters)


def _tokens(model: Any, length: int, seed: int) -> Kwargs:
    torch = _torch()
    config = _text_config(model)
    special = {getattr(config, f"{name}_token_id", None) for name in _SPECIAL}
    ordinary = torch.tensor([i for i in range(int(config.vocab_size)) if i not in special])
    generator = torch.Generator().manual_seed(seed)
    draw = torch.randint(0, len(ordinary), (1, length), generator=generator)
    ids = ordinary[draw].to(model.device)
    known = _parameters(model)
    kwargs: Kwargs = {"input_ids": ids}
    if "attention_mask" in known:
        kwargs["attention_mask"] = torch.ones_like(ids)
    if getattr(model.config, "is_encoder_decoder", False):
        kwargs["decoder_input_ids"] = ids[:, : max(1, length // 2)]
    # A config with an image token mixes pictures into the text; without one they stand beside it.
    beside = hasattr(model.config, "vision_config") and not hasattr(model.config, "image_token_id")
    if beside and "pixel_values" in known:
        kwargs["pixel_values"] = _noise(model, _pixels(model), seed)
    return kwargs


def _noise(model: Any, shape: tuple[int, ...], seed: int) -> Any:
    torch = _torch()
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(model.device, model.dtype)


def _pixels(model: Any) -> tuple[int, ...]:
    config = getattr(model.config, "vision_config", model.config)
    size = getattr(config, "image_size", 224)
    height, width = size if isinstance(size, list | tuple) else (size, size)
    return (1, int(getattr(config, "num_channels", 3)), int(height), int(width))


def _samples(model: Any) -> tuple[int, ...]:
    config = model.config
    if hasattr(config, "num_mel_bins") and hasattr(config, "max_length"):
        return (1, int(config.max_length), int(config.num_mel_bins))
    return (1, _AUDIO_SAMPLES)


def _features(model: Any) -> tuple[int, ...]:
    config = model.config
    frames = 2 * int(getattr(config, "max_source_positions", 64))
    return (1, int(getattr(config, "num_mel_bins", 80)), frames)
