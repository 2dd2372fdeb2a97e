"""Every accepted argument in a regime where it must do something, and what it did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rootdk.identify.bench import Bench
from rootdk.identify.fitting import fit
from rootdk.identify.masks import expected_weights, moderate
from rootdk.identify.model import Model, capped
from rootdk.identify.probes._base import Probe
from rootdk.identify.subject import Floats, Refused
from rootdk.records import ArgumentFact

__all__ = ["Arguments"]

_CLOSE = 2e-3
_CAP = 5.0
_SINK = 20.0


class Arguments(Probe):
    """Scale, softcap, sink, dropout, slopes and lengths, one at a time."""

    name = "arguments"
    order = 80
    fills = ("arguments",)

    def run(self, bench: Bench) -> None:
        """Try each argument that the function takes."""
        ways: dict[str, Callable[[Bench], ArgumentFact | None]] = {
            "scale": _scale,
            "softcap": _softcap,
            "sink": _sink,
            "dropout": _dropout,
            "training": _training,
            "alibi": _alibi,
            "key_lengths": _key_lengths,
            "mask": _mask,
            "bias": _bias,
            "causal": _causal,
        }
        for meaning, way in ways.items():
            own = bench.subject.own_name(meaning)
            if own is None:
                continue
            try:
                fact = way(bench)
            except Refused as refusal:
                bench.refused(self.name, own, refusal)
                fact = ArgumentFact(
                    name=own, meaning=meaning, tried=own, effect="refused", detail=refusal.error
                )
            if fact is not None:
                bench.notebook.arguments.setdefault(own, fact)


def _scale(bench: Bench) -> ArgumentFact | None:
    own, value = bench.subject.own_name("scale"), bench.notebook.get("scale.value")
    if not value or bench.notebook.get("scale.varies") or own is None:
        return None
    asked = float(f"{1.7 * abs(value):.3g}")
    axis = bench.notebook.get("softmax.axis")
    if axis not in ("keys", "queries"):
        return None
    query, key = bench.query_key(bench.sizes, bench.amplitude)
    given = fit(bench, query, key, axis=axis, normalises=bench.normalises, asked={"scale": asked})
    base = bench.subject.output(query, key, _ones(bench, query, key))
    moved = bench.subject.output(query, key, _ones(bench, query, key), scale=asked)
    effect = _effect(given.slope, asked, value)
    _witness_scale(bench, own, asked)
    return ArgumentFact(
        name=own,
        meaning="scale",
        tried=f"{own}={_own_value(bench, 'scale', asked):.4g}",
        effect=effect,  # type: ignore[arg-type]
        detail="" if effect != "wrong" else f"scores are multiplied by {given.slope:.5g}",
        difference=abs(given.slope - value) if base.shape == moved.shape else None,
        from_asked=abs(given.slope - asked),
        asked=asked,
        acted=given.slope,
    )


def _effect(acted: float, asked: float, before: float) -> str:
    if abs(acted - asked) <= _CLOSE * abs(asked):
        return "as-asked"
    return "none" if abs(acted - before) <= _CLOSE * abs(before) else "wrong"


def _own_value(bench: Bench, meaning: str, value: float) -> float:
    word = bench.subject.adapted.words[meaning]
    return 1.0 / value if word.form == "inverse" else value


def _ones(bench: Bench, query: Floats, key: Floats) -> Floats:
    return np.ones((*key.shape[:3], query.shape[3]))


def _witness_scale(bench: Bench, own: str, asked: float) -> None:
    sizes = bench.sizes
    query = np.zeros((sizes.batch, sizes.heads, sizes.queries, sizes.head_dim))
    key = np.zeros((sizes.batch, sizes.kv_heads, sizes.keys, sizes.head_dim))
    query[..., 0], key[..., 1, 0] = 1.0, 1.0
    value = np.zeros((sizes.batch, sizes.kv_heads, sizes.keys, sizes.value_dim))
    value[..., 0, 0], value[..., 1, 1] = 1.0, 1.0
    bench.witness(
        f"arguments.{own}",
        f"the products q·k of the first two keys are 0 and 1, so that the log-ratio of their "
        f"weights is the scale; {own} asks for {asked:g}",
        query,
        key,
        value,
        seen="np.log(output[0, 0, 0, 1] / output[0, 0, 0, 0])",
        expected=f"{asked:g}",
        asked={"scale": asked},
    )


def _softcap(bench: Bench) -> ArgumentFact | None:
    own, value = bench.subject.own_name("softcap"), bench.notebook.get("scale.value")
    if own is None or not value or bench.normalises or bench.notebook.get("scale.varies"):
        return None
    query, key = moderate(bench, 4.0)
    seen = bench.weights(query, key, softcap=_CAP)
    plain = bench.weights(query, key)
    model = bench.model
    scores = value * (query @ key.swapaxes(-1, -2))
    asked = (
        model.having(softcap=(_CAP, "tanh")).weights(query, key)
        if model is not None
        else _softmaxed(capped(scores, _CAP))
    )
    moved, off = float(np.max(np.abs(seen - plain))), float(np.max(np.abs(seen - asked)))
    effect = "as-asked" if off <= _CLOSE else "none" if moved <= _CLOSE else "wrong"
    acted = None if effect == "none" else _bound(bench, value)
    detail = "" if effect != "wrong" or acted is None else f"scores are bounded by {acted:.4g}"
    _witness_cap(bench, own, value)
    return ArgumentFact(
        name=own, meaning="softcap", tried=f"{own}={_CAP:g}", effect=effect,  # type: ignore[arg-type]
        detail=detail, difference=moved, from_asked=off, asked=_CAP, acted=acted,
    )  # fmt: skip


def _softmaxed(scores: Floats) -> Floats:
    terms = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(terms / terms.sum(axis=-1, keepdims=True))


def _far_apart(bench: Bench, value: float) -> tuple[Floats, Floats]:
    """Return query and key whose scaled scores are −400 at the first key and 400 at the second."""
    sizes = bench.sizes
    query = np.zeros((sizes.batch, sizes.heads, sizes.queries, sizes.head_dim))
    key = np.zeros((sizes.batch, sizes.kv_heads, sizes.keys, sizes.head_dim))
    query[..., 0] = 400.0 / value
    key[..., 0, 0], key[..., 1, 0] = -1.0, 1.0
    return query, key


def _bound(bench: Bench, value: float) -> float | None:
    """Return the bound that scores reach: half the log-ratio of a high and a low score."""
    query, key = _far_apart(bench, value)
    weights = bench.weights(query, key, softcap=_CAP)
    with np.errstate(all="ignore"):
        gap = float(np.log(weights[0, 0, 0, 1] / weights[0, 0, 0, 0]))
    return 0.5 * gap if np.isfinite(gap) else None


def _witness_cap(bench: Bench, own: str, value: float) -> None:
    query, key = _far_apart(bench, value)
    sizes = bench.sizes
    values = np.zeros((sizes.batch, sizes.kv_heads, sizes.keys, sizes.value_dim))
    values[..., 0, 0], values[..., 1, 1] = 1.0, 1.0
    bench.witness(
        f"arguments.{own}",
        f"the scaled scores of the first two keys are −400 and 400, so that half the log-ratio of "
        f"their weights is the bound; {own} asks for {_CAP:g}",
        query,
        key,
        values,
        seen="np.log(output[0, 0, 0, 1] / output[0, 0, 0, 0]) / 2",
        expected=f"{_CAP:g}",
        asked={"softcap": _CAP},
    )


def _sink(bench: Bench) -> ArgumentFact | None:
    own = bench.subject.own_name("sink")
    if own is None:
        return None
    query, key = moderate(bench)
    sink = np.full(query.shape[1], _SINK)
    plain = bench.weights(query, key)
    seen = bench.weights(query, key, sink=sink)
    moved = float(np.max(np.abs(seen - plain)))
    asked = _model(bench).having(sink=sink).weights(query, key)
    off = float(np.max(np.abs(seen - asked)))
    effect = "none" if moved <= 1e-4 else "as-asked" if off <= 1e-4 else "wrong"
    value = np.ones((*key.shape[:3], bench.sizes.value_dim))
    bench.witness(
        f"arguments.{own}",
        f"query and key are 0 and every value is 1: an output is what a sink of {_SINK:g} leaves "
        "to the keys",
        np.zeros_like(query),
        np.zeros_like(key),
        value,
        seen="output[0, 0, 0, 0]",
        expected=f"{key.shape[2]} / ({key.shape[2]} + np.exp({_SINK:g}))",
        asked={"sink": sink},
    )
    sums = seen.sum(axis=-1)
    return ArgumentFact(
        name=own, meaning="sink", tried=f"{own}={_SINK:g}", effect=effect,  # type: ignore[arg-type]
        detail="" if effect != "wrong" else f"rows sum to {sums.min():.3g} to {sums.max():.3g}",
        difference=moved, from_asked=off, asked=_SINK,
    )  # fmt: skip


def _model(bench: Bench) -> Model:
    return bench.need_model()


def _dropout(bench: Bench) -> ArgumentFact | None:
    own, subject = bench.subject.own_name("dropout"), bench.subject
    if own is None:
        return None
    query, key = moderate(bench)
    value = bench.random_value(bench.sizes)
    plain = subject.output(query, key, value)
    if subject.takes("training"):
        held = subject.output(query, key, value, dropout=0.5, training=False)
        moved = float(np.max(np.abs(held - plain)))
        if moved > 1e-3:
            return ArgumentFact(
                name=own, meaning="dropout", tried=f"{own}=0.5", effect="as-asked",
                detail="it drops although training is off", difference=moved, asked=0.5,
            )  # fmt: skip
        dropped = subject.output(query, key, value, dropout=0.5, training=True)
    else:
        dropped = subject.output(query, key, value, dropout=0.5)
    moved = float(np.max(np.abs(dropped - plain)))
    _witness_plain(bench, own, {"dropout": 0.5})
    return ArgumentFact(
        name=own, meaning="dropout", tried=f"{own}=0.5",
        effect="as-asked" if moved > 1e-3 else "none", difference=moved, asked=0.5,
    )  # fmt: skip


def _training(bench: Bench) -> ArgumentFact | None:
    """Whether dropout asks for it: with it off nothing may be dropped."""
    own, subject = bench.subject.own_name("training"), bench.subject
    if own is None or not subject.takes("dropout"):
        return None
    query, key = moderate(bench)
    value = bench.random_value(bench.sizes)
    plain = subject.output(query, key, value)
    off = subject.output(query, key, value, dropout=0.5, training=False)
    on = subject.output(query, key, value, dropout=0.5, training=True)
    dropped = float(np.max(np.abs(on - plain)))
    kept = float(np.max(np.abs(off - plain)))
    if dropped <= 1e-3:
        return None  # nothing drops, which is dropout's matter
    _witness_plain(bench, own, {"dropout": 0.5, "training": False})
    return ArgumentFact(
        name=own, meaning="training", tried=f"{own}=False",
        effect="as-asked" if kept <= 1e-3 else "none",
        detail="" if kept <= 1e-3 else "dropout drops with it on and off",
        difference=0.0 if kept > 1e-3 else dropped,
    )  # fmt: skip


def _witness_plain(bench: Bench, own: str, asked: dict[str, Any]) -> None:
    sizes = bench.sizes
    query = np.zeros((sizes.batch, sizes.heads, sizes.queries, sizes.head_dim))
    key = np.zeros((sizes.batch, sizes.kv_heads, sizes.keys, sizes.head_dim))
    value = np.zeros((sizes.batch, sizes.kv_heads, sizes.keys, sizes.value_dim))
    value[..., 0, 0] = 1.0
    bench.witness(
        f"arguments.{own}",
        "query and key are 0, so that all keys weigh the same without the argument",
        query,
        key,
        value,
        seen="output[..., 0]",
        expected=f"'not all of them 1/{sizes.keys}'",
        asked=asked,
    )


def _alibi(bench: Bench) -> ArgumentFact | None:
    own = bench.subject.own_name("alibi")
    if own is None:
        return None
    query, key = moderate(bench)
    slopes = 0.25 * (1.0 + np.arange(query.shape[1]))
    plain = bench.weights(query, key)
    seen = bench.weights(query, key, alibi=slopes)
    moved = float(np.max(np.abs(seen - plain)))
    if moved > _CLOSE:
        i, j = np.arange(query.shape[2])[:, None], np.arange(key.shape[2])[None, :]
        shift = key.shape[2] - query.shape[2]
        per_head = slopes[:, None, None]
        readings = (-np.abs(i - j), -np.abs(i + shift - j), j + 0 * i)
        fits = any(
            np.max(np.abs(seen - expected_weights(bench, query, key, bias=(per_head * r)[None])))
            <= _CLOSE
            for r in readings
        )
        if not fits:
            bench.notebook.remarks.append(
                f"{own} moves the output, in none of the ways that slopes are known to act"
            )
            return None
    _witness_plain(bench, own, {"alibi": slopes})
    return ArgumentFact(
        name=own, meaning="bias", tried=f"{own}=slopes",
        effect="as-asked" if moved > _CLOSE else "none", difference=moved,
    )  # fmt: skip


def _key_lengths(bench: Bench) -> ArgumentFact | None:
    own = bench.subject.own_name("key_lengths")
    if own is None or not bench.subject.layout.has("b"):
        return None
    query, key = moderate(bench)
    lengths = np.arange(query.shape[0], dtype=np.int32) + 2
    mask = (np.arange(key.shape[2]) < lengths[:, None])[:, None, None, :]
    plain = bench.weights(query, key)
    seen = bench.weights(query, key, key_lengths=lengths)
    off = float(np.max(np.abs(seen - expected_weights(bench, query, key, mask=mask))))
    moved = float(np.max(np.abs(seen - plain)))
    return ArgumentFact(
        name=own, meaning="mask", tried=f"{own}={lengths.tolist()}",
        effect="as-asked" if off <= _CLOSE else "none" if moved <= _CLOSE else "wrong",
        difference=moved, from_asked=off,
    )  # fmt: skip


def _mask(bench: Bench) -> ArgumentFact | None:
    own, reading = bench.subject.own_name("mask"), bench.notebook.get("mask.boolean")
    if own is None or reading is None:
        return None
    moved = bench.notebook.get("mask.bias_factor")
    if reading == "none" and moved is not None and abs(moved) > 1e-3:
        return None  # it acts as a bias
    meant = bench.notebook.get("mask.documented")
    return ArgumentFact(
        name=own, meaning="mask", tried=f"{own}=(boolean)",
        effect={meant: "as-asked", "none": "none"}.get(reading, "wrong"),  # type: ignore[arg-type]
        detail="" if reading in (meant, "none") else f"True counts as: {reading}",
        difference=0.0 if reading == "none" else None,
    )  # fmt: skip


def _bias(bench: Bench) -> ArgumentFact | None:
    own, factor = bench.subject.own_name("bias"), bench.notebook.get("mask.bias_factor")
    if own is None or factor is None:
        return None
    effect = "as-asked" if abs(factor - 1.0) <= _CLOSE else "wrong"
    return ArgumentFact(
        name=own, meaning="bias", tried=f"{own}=(normal entries)",
        effect="none" if abs(factor) <= 1e-6 else effect,  # type: ignore[arg-type]
        detail="" if effect == "as-asked" else f"a bias of 1 acts as {factor:.5g}",
        difference=0.0 if abs(factor) <= 1e-6 else None, asked=1.0, acted=factor,
    )  # fmt: skip


def _causal(bench: Bench) -> ArgumentFact | None:
    own, word = bench.subject.own_name("causal"), bench.notebook.get("mask.alignment")
    if own is None or word is None:
        return None
    known = {"none": "none", "top_left": "as-asked", "bottom_right": "as-asked"}
    return ArgumentFact(
        name=own, meaning="causal", tried=f"{own}=True",
        effect=known.get(word, "wrong"),  # type: ignore[arg-type]
        detail="" if word == "none" else str(word),
        difference=0.0 if word == "none" else None,
    )  # fmt: skip
