"""Synthetic input for a model, from the signature of its forward and from what it objects to.

Which arguments are given is found by trying: first all that the main input suggests, then what
the error message of a failed call asks for.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterator
from typing import Any

import torch

from zoo.build import NotBuilt
from zoo.makers import MAKERS, Feed, placeholder

TRIES = 16

_SIZES = re.compile(r"tokens:? ?(\d+),? features:? ?(\d+)")
_EXPECTED_IMAGE = re.compile(r"doesn't match model \((\d+)\*(\d+)\)")
_SENSES = {"vision": r"pixel|image|video", "audio": r"input_features|input_values|feature"}
_DIMENSIONS = re.compile(r"expected (\d)(?:, got (\d))?\)")


def feed_model(model: Any) -> tuple[dict[str, Any], int]:
    """Return keyword arguments that the model runs with, and how many attempts that took.

    Raises
    ------
    NotBuilt
        If no attempt ran; the sentence is the objection to the plainest one.
    """
    known = inspect.signature(model.forward).parameters
    said: list[str] = []
    count = 0
    for given, feed in _plans(model, known):
        for _ in range(6):
            count += 1
            error, kwargs = _attempt(model, feed, given)
            if error is None:
                return kwargs, count
            said.append(_said(error))
            if count >= TRIES or not _repair(str(error), given, feed, known):
                break
        if count >= TRIES:
            break
    raise NotBuilt("no input fitted", " || ".join(list(dict.fromkeys(said))[:6]) or "no plan")


def _attempt(model: Any, feed: Feed, given: list[str]) -> tuple[Exception | None, dict[str, Any]]:
    torch.manual_seed(1)
    try:
        kwargs = {name: feed.make(name) for name in given}
        with torch.no_grad():
            model(**kwargs)
    except Exception as error:  # noqa: BLE001 - the next attempt reads what was wrong
        return error, {}
    torch.manual_seed(1)
    return None, {name: feed.make(name) for name in given}


def _plans(model: Any, known: Any) -> Iterator[tuple[list[str], Feed]]:
    required = [
        n for n, p in known.items()
        if p.default is p.empty and p.kind == p.POSITIONAL_OR_KEYWORD
    ]  # fmt: skip
    main = getattr(model, "main_input_name", "input_ids")
    mains = [main] if isinstance(main, str) else list(main)
    mains = [n for n in mains if n in known] or required or ["input_ids"]
    wanted = [n for n in dict.fromkeys([*mains, *required]) if n in MAKERS]
    senses = [n for n in ("pixel_values", "input_features", "input_values", "pixel_values_videos")
              if n in known and n not in wanted]  # fmt: skip
    masks = [
        n for n in ("input_features_mask", "feature_attention_mask", "is_longer") if n in known
    ]
    for extra in [[*masks, s] for s in senses] + [[s] for s in senses if masks] + [masks, []]:
        base = list(dict.fromkeys([*wanted, *extra]))
        if "pixel_values" in base and "image_grid_thw" in known:
            yield [*base, "image_grid_thw"], Feed(model, pixels=2)
        if "grid_thw" in known:
            yield list(base), Feed(model, pixels=2, instead={"hidden_states": "pixel_values"})
        for variant in _variants(base):
            yield list(base), Feed(model, **variant)
            if "decoder_input_ids" in known and "decoder_input_ids" not in base:
                yield [*base, "decoder_input_ids"], Feed(model, **variant)

    unwanted = re.compile(r"embeds|hidden_states|use_cache|position_ids|video|_grid|prompt")
    yield [n for n in known if n in MAKERS and not unwanted.search(n)], Feed(model)


def _variants(given: list[str]) -> list[dict[str, Any]]:
    names = set(given)
    if names & {"pixel_values", "pixel_values_videos"}:
        return [{}, {"image": 224}, {"image": 448}, {"image": 640}]
    if names & {"input_features", "audio_mel", "audio_input_features"}:
        return [
            {},
            {"spectrum_last": True},
            {"long": 3000},
            {"long": 1024, "spectrum_last": True},
            {"pixels": 5, "spectrum_last": True, "long": 1024},
        ]
    if "past_time_features" in names:
        return [{}]
    if "past_values" in names:
        return [{}, {"pixels": 3}]
    if names & {"input_values"}:
        return [{}, {"pixels": 3}, {"spectrum_last": True}, {"long": 48000}]
    return [{}, {"tokens": 64}]


def _repair(said: str, given: list[str], feed: Feed, known: Any) -> bool:
    """Change the input as an error message asks; False where it asks for nothing."""
    if found := _SIZES.search(said):
        have, want = (int(n) for n in found.groups())
        if have == want:
            return False
        for name in ("image", "video", "audio"):
            if name in said.lower() and placeholder(feed, name) is not None:
                feed.placeholders[name] = want
                return True
        return False
    if found := _EXPECTED_IMAGE.search(said):
        size = int(found[1]), int(found[2])
        changed, feed.image = feed.image != size, size
        return changed
    if "5D tensor of shape (batch_size, 2" in said:
        changed, feed.pixels, feed.frames = feed.pixels != 5, 5, 2
        return changed
    if found := _DIMENSIONS.search(said):
        if found.groups() == ("3", "2") and "pixel_values" not in given and not feed.codes:
            feed.codes = feed.number("num_channels", "num_codebooks", default=4, within="decoder")
            return True
        if "pixel_values" not in given or (found[1] == found[2]):
            return False
        wanted = {"3": 3, "4": 4, "5": 5, "6": 6}.get(found[1], 0)
        changed, feed.pixels = feed.pixels != wanted and wanted > 0, wanted or feed.pixels
        return changed
    if "ache" in said and "use_cache" in known and "use_cache" not in given:
        given.append("use_cache")
        return True
    if _refit(said, given, feed):
        return True
    if found := re.search(r"initialized without an? (vision|audio)_config", said):
        unwanted = [n for n in given if re.match(_SENSES[found[1]], n)]
        given[:] = [n for n in given if n not in unwanted]
        return bool(unwanted and given)
    named = re.search(r"`(\w+)` is missing", said)
    if named and named[1] in MAKERS and named[1] not in given:
        given.append(named[1])
        return True
    if "oth " in said and "input_ids" in given and len(given) > 1:
        given.remove("input_ids")
        return True
    asked = [n for n in known if n in MAKERS and n not in given and re.search(rf"\b{n}\b", said)]
    given += asked[:1] if "or" in said.split() else asked
    return bool(asked)


_PRODUCT = re.compile(r"cannot be multiplied \((\d+)x(\d+) and (\d+)x\d+\)")
_SUM = re.compile(r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)")
_VIEW = re.compile(r"shape '\[-1, ([\d, ]+)\]' is invalid for input of size (\d+)")
_CONVOLUTION = re.compile(r"weight of size \[\d+, \d+, \d+, \d+\], expected input")


def _refit(said: str, given: list[str], feed: Feed) -> bool:
    """Give an input the width that a product, a sum or a view in the message wanted."""
    made = {n: feed.make(n) for n in given}
    floats = {n: v for n, v in made.items() if hasattr(v, "shape") and v.is_floating_point()}
    if _CONVOLUTION.search(said) and "hidden_states" in floats and not feed.instead:
        feed.instead["hidden_states"] = "pixel_values"
        return True
    have = want = 0
    if found := _PRODUCT.search(said):
        have, want = int(found[2]), int(found[3])
    elif found := _SUM.search(said):
        have, want = int(found[1]), int(found[2])
    elif found := _VIEW.search(said):
        want = math.prod(int(n) for n in found[1].split(","))
        for name, value in made.items():
            if hasattr(value, "numel") and value.numel() == int(found[2]):
                if name.endswith("input_ids") and want % value.numel() == 0 and feed.batch == 1:
                    feed.batch = want // value.numel()
                    return True
                have = value.shape[-1]
    fits = [n for n, v in floats.items() if v.shape[-1] == have and n not in feed.last]
    if not want or have == want or not fits:
        return False
    feed.last[fits[0]] = want
    return True


def _said(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[:2])[:140]}"
