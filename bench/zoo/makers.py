"""How each argument of a forward is made, by the name that transformers gives it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from zoo.shrink import configs

TOKENS = 23


@dataclass
class Feed:
    """What is known of the input that a model wants; makers read and attempts change it."""

    model: Any
    tokens: int = TOKENS
    batch: int = 1
    image: int | tuple[int, int] | None = None
    frames: int | None = None
    pixels: int = 4
    spectrum_last: bool = False
    long: int = 0
    codes: int = 0
    placeholders: dict[str, int] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    instead: dict[str, str] = field(default_factory=dict)

    def make(self, name: str) -> Any:
        """The value of one argument, its last axis of the width that was asked for."""
        made = MAKERS[self.instead.get(name, name)](self)
        width = self.last.get(name)
        if width is None or made.shape[-1] == width:
            return made
        return torch.randn(*made.shape[:-1], width)

    def value(self, *names: str, default: Any = None, within: str = "") -> Any:
        """The first value that a configuration of the model has under one of the names."""
        parts = list(configs(self.model.config))
        if within:
            parts.sort(key=lambda c: within not in type(c).__name__.lower())
        for part in parts:
            for name in names:
                found = getattr(part, name, None)
                if found is not None and not isinstance(found, (str, bool)):
                    return found
        return default

    def number(self, *names: str, default: int, within: str = "") -> int:
        found = self.value(*names, default=default, within=within)
        return int(found[0] if isinstance(found, (list, tuple)) else found)


Maker = Callable[[Feed], Any]
MAKERS: dict[str, Maker] = {}


def maker(*arguments: str) -> Callable[[Maker], Maker]:
    """Register how these arguments of a forward are made."""

    def register(make: Maker) -> Maker:
        MAKERS.update(dict.fromkeys(arguments, make))
        return make

    return register


# ------------------------------------------------------------------ text


@maker("input_ids", "decoder_input_ids", "qformer_input_ids", "text_inputs", "audio_input_ids")
def _ids(feed: Feed) -> torch.Tensor:
    most = min(feed.number("vocab_size", default=300, within="text"), 300)
    positions = feed.number("max_position_embeddings", "n_positions", default=0, within="text")
    if 0 < positions < feed.tokens:
        feed.tokens = positions
    ids = torch.randint(min(12, most // 3), max(2, most - 40), (feed.batch, feed.tokens))
    if feed.codes:
        return ids[..., None].expand(-1, -1, feed.codes).clone()
    special = [
        (token, count)
        for name, count in feed.placeholders.items()
        for token in [placeholder(feed, name)]
        if token is not None and count
    ]
    for token, count in special:
        ids[ids == token] = 11
        block = torch.full((feed.batch, count // feed.batch), token)
        ids = torch.cat([ids[:, :2], block, ids[:, 2:]], 1)
    return ids


def placeholder(feed: Feed, name: str) -> int | None:
    roots = (f"{name}_token_id", f"{name}_token_index", f"{name}_index")
    return feed.value(*roots)


@maker("attention_mask", "decoder_attention_mask", "qformer_attention_mask")
def _all_visible(feed: Feed) -> torch.Tensor:
    return torch.ones(feed.batch, feed.tokens + sum(feed.placeholders.values()), dtype=torch.long)


@maker("task_inputs")
def _task(feed: Feed) -> torch.Tensor:
    return torch.randint(1, 40, (feed.batch, feed.number("task_seq_len", default=77)))


@maker("token_type_ids")
def _types(feed: Feed) -> torch.Tensor:
    return torch.zeros(feed.batch, feed.tokens, dtype=torch.long)


@maker("mm_token_type_ids")
def _kinds_of_tokens(feed: Feed) -> torch.Tensor:
    ids = _ids(feed)
    kinds = torch.zeros_like(ids)
    for kind, name in enumerate(("image", "video", "audio"), 1):
        token = placeholder(feed, name) if feed.placeholders.get(name) else None
        kinds[ids == token if token is not None else torch.zeros_like(ids, dtype=bool)] = kind
    return kinds


@maker("states")
def _observations(feed: Feed) -> torch.Tensor:
    return torch.randn(feed.batch, feed.tokens, feed.number("state_dim", default=17))


@maker("actions")
def _actions(feed: Feed) -> torch.Tensor:
    return torch.randn(feed.batch, feed.tokens, feed.number("act_dim", default=4))


@maker("rewards", "returns_to_go")
def _rewards(feed: Feed) -> torch.Tensor:
    return torch.randn(feed.batch, feed.tokens, 1)


@maker("timesteps")
def _steps(feed: Feed) -> torch.Tensor:
    return torch.arange(feed.tokens)[None]


@maker("text_embeds", "context_hidden_states")
def _more_states(feed: Feed) -> torch.Tensor:
    return _states(feed)


@maker("use_cache")
def _no_cache(feed: Feed) -> bool:
    return False


@maker("bbox")
def _boxes(feed: Feed) -> torch.Tensor:
    corner = torch.randint(1, 50, (feed.batch, feed.tokens, 2))
    return torch.cat([corner, corner + torch.randint(1, 40, corner.shape)], -1)


@maker("encoder_hidden_states")
def _encoded(feed: Feed) -> torch.Tensor:
    width = feed.value("encoder_hidden_size", "cross_attention_hidden_size")
    states = _states(feed)
    return states if width is None else torch.randn(*states.shape[:2], int(width))


@maker("latents")
def _channels_first(feed: Feed) -> torch.Tensor:
    return _states(feed).mT


@maker("inputs_embeds", "hidden_states", "query_embeds", "inputs", "context")
def _states(feed: Feed) -> torch.Tensor:
    width = feed.number("hidden_size", "d_model", "n_embd", "embed_dim", "dim", default=64)
    return torch.randn(feed.batch, feed.tokens, width)


@maker("position_ids", "cache_position")
def _positions(feed: Feed) -> torch.Tensor:
    return torch.arange(feed.tokens)[None].expand(feed.batch, -1)


# ------------------------------------------------------------------ images and video


def _side(feed: Feed) -> tuple[int, int]:
    size = feed.image
    if size is None:
        size = feed.value("image_size", "img_size", default=224, within="vision")
    if isinstance(size, dict):
        size = (size.get("height", 224), size.get("width", 224))
    if isinstance(size, (list, tuple)):
        return (int(size[-2]), int(size[-1])) if len(size) > 1 else (int(size[0]),) * 2
    patch = feed.number("patch_size", default=1, within="vision")
    side = int(size) if int(size) % max(patch, 1) == 0 or patch > 64 else int(size) // patch * patch
    return max(side, patch), max(side, patch)


def _channels(feed: Feed) -> int:
    names = ("num_channels", "in_channels", "in_chans", "image_channels", "num_input_channels")
    return feed.number(*names, default=3, within="vision")


@maker("pixel_values", "pixel_values_images", "image_pixel_values", "high_res_pixel_values",
       "prompt_pixel_values", "image", "images", "sample")  # fmt: skip
def _pixels(feed: Feed) -> torch.Tensor:
    if feed.pixels == 2:
        return _patches(feed)
    shape = (feed.batch, _channels(feed), *_side(feed))
    if feed.pixels == 3:
        patch = feed.number("patch_size", default=16, within="vision")
        return torch.randn(feed.batch, 16, _channels(feed) * patch * patch)
    if feed.pixels == 5:
        frames = feed.frames or feed.number("num_frames", "frames_per_clip", default=1)
        return torch.randn(shape[0], frames, *shape[1:])
    if feed.pixels == 6:
        return torch.randn(shape[0], 1, 2, *shape[1:])
    return torch.randn(shape)


@maker("pixel_values_videos", "frame")
def _video(feed: Feed) -> torch.Tensor:
    if feed.pixels == 2:
        return _patches(feed)
    frames = feed.number("num_frames", "frames_per_clip", default=2, within="vision")
    return torch.randn(feed.batch, min(frames, 16), _channels(feed), *_side(feed))


def _grid(feed: Feed) -> tuple[int, int, int]:
    return 1, 4, 8


def _patches(feed: Feed) -> torch.Tensor:
    patch = feed.number("patch_size", default=14, within="vision")
    time = feed.number("temporal_patch_size", default=1, within="vision")
    t, h, w = _grid(feed)
    return torch.randn(t * h * w, _channels(feed) * time * patch * patch)


@maker("grid_thw", "image_grid_thw", "video_grid_thw")
def _grids(feed: Feed) -> torch.Tensor:
    return torch.tensor([_grid(feed)])


@maker("pixel_mask")
def _pixel_mask(feed: Feed) -> torch.Tensor:
    return torch.ones(feed.batch, *_side(feed), dtype=torch.long)


@maker("image_sizes")
def _image_sizes(feed: Feed) -> torch.Tensor:
    return torch.tensor([_side(feed)] * feed.batch)


@maker("pixel_attention_mask", "spatial_shapes")
def _spatial(feed: Feed) -> torch.Tensor:
    return torch.ones(feed.batch, 16, dtype=torch.long)


@maker("visual_feats", "visual_embeds")
def _regions(feed: Feed) -> torch.Tensor:
    width = feed.number("visual_feat_dim", "visual_embedding_dim", default=64)
    return torch.randn(feed.batch, 10, width)


@maker("visual_pos")
def _places(feed: Feed) -> torch.Tensor:
    return torch.rand(feed.batch, 10, 4)


@maker("aspect_ratio_ids")
def _ratios(feed: Feed) -> torch.Tensor:
    return torch.ones(feed.batch, 1, dtype=torch.long)


@maker("aspect_ratio_mask")
def _tiles(feed: Feed) -> torch.Tensor:
    return torch.ones(feed.batch, 1, feed.number("max_num_tiles", default=4), dtype=torch.long)


@maker("flattened_patches")
def _flat(feed: Feed) -> torch.Tensor:
    width = 2 + feed.number("patch_embed_hidden_size", default=768)
    rows = torch.arange(1, 17)
    place = torch.stack([(rows - 1) // 4 + 1, (rows - 1) % 4 + 1], -1)[None].float()
    return torch.cat([place, torch.randn(1, 16, width - 2)], -1)


@maker("pixel_position_ids", "image_position_ids")
def _patch_places(feed: Feed) -> torch.Tensor:
    rows = torch.arange(36)
    return torch.stack([rows % 6, rows // 6], -1)[None]


# ------------------------------------------------------------------ sound


@maker("input_values", "audio_values", "noise_embeds")
def _wave(feed: Feed) -> torch.Tensor:
    if feed.spectrum_last:
        bins = feed.number("num_mel_bins", "mel_dim", "num_mels", default=80)
        return torch.randn(feed.batch, feed.number("max_length", default=128), bins)
    if feed.pixels == 3:
        return torch.randn(feed.batch, 1, feed.long or 8000)
    return torch.randn(feed.batch, feed.long or 8000)


@maker("input_features", "audio_input_features", "audio_mel", "mel_spectrogram", "spectrogram")
def _features(feed: Feed) -> torch.Tensor:
    names = ("num_mel_bins", "feature_size", "n_mels", "input_feat_per_channel", "input_dim",
             "feature_projection_input_dim", "mel_bins", "input_size", "n_mel")  # fmt: skip
    bins = feed.number(*names, default=80, within="audio")
    positions = feed.value("max_source_positions", default=0, within="audio")
    length = feed.long or (2 * int(positions) if positions and not feed.spectrum_last else 128)
    shape = (length, bins) if feed.spectrum_last else (bins, length)
    return torch.randn(feed.batch, *((1,) if feed.pixels == 5 else ()), *shape)


@maker("is_longer")
def _not_longer(feed: Feed) -> torch.Tensor:
    return torch.zeros(feed.batch, 1, dtype=torch.bool)


@maker("mask", "input_features_mask", "feature_attention_mask", "audio_mel_mask")
def _features_mask(feed: Feed) -> torch.Tensor:
    made = _features(feed)
    return torch.ones(feed.batch, made.shape[1 if feed.spectrum_last else 2], dtype=torch.long)


# ------------------------------------------------------------------ series


def _past_shape(feed: Feed) -> tuple[int, ...]:
    length = feed.number("context_length", default=32)
    lags = feed.value("lags_sequence", default=[])
    channels = feed.number("num_input_channels", "input_size", default=1)
    shape = (feed.batch, length + (max(lags) if lags else 0))
    return (*shape, channels) if channels > 1 or feed.pixels == 3 else shape


@maker("past_values")
def _past(feed: Feed) -> torch.Tensor:
    return torch.randn(_past_shape(feed)).abs()


@maker("past_observed_mask", "past_values_padding", "observed_mask")
def _observed(feed: Feed) -> torch.Tensor:
    return torch.ones(_past_shape(feed))


@maker("past_time_features")
def _past_time(feed: Feed) -> torch.Tensor:
    features = feed.number("num_time_features", default=0)
    return torch.randn(*_past_shape(feed)[:2], features)


@maker("future_values")
def _future(feed: Feed) -> torch.Tensor:
    return torch.rand(feed.batch, feed.number("prediction_length", default=8))


@maker("future_time_features")
def _future_time(feed: Feed) -> torch.Tensor:
    length = feed.number("prediction_length", default=8)
    return torch.randn(feed.batch, length, feed.number("num_time_features", default=0))
