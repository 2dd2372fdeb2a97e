"""What the function would return if the facts found so far were all there is, in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rootdk._lib.arrays import quiet
from rootdk.identify.subject import Floats, sizes_of
from rootdk.records import Sizes

__all__ = ["Model", "capped", "kv_heads_of", "scores_of", "softmax"]

_AXES = {
    "keys": (-1,),
    "queries": (-2,),
    "heads": (1,),
    "batch": (0,),
    "queries-and-keys": (-2, -1),
}


def capped(scores: Floats, value: float | None, form: str = "tanh") -> Floats:
    """Return scores behind a cap of a form."""
    if value is None:
        return scores
    if form == "clamp":
        return np.clip(scores, -value, value)
    return value * np.tanh(scores / value)


def softmax(scores: Floats, axis: str = "keys", sink: Floats | None = None) -> Floats:
    """Return the weights over an axis; a row of −inf is NaN unless a sink takes its mass."""
    axes = _AXES[axis]
    with quiet():
        top = np.max(scores, axis=axes, keepdims=True)
        extra: Floats | float = 0.0
        if sink is not None:
            shaped = sink.reshape(1, -1, 1, 1)
            top = np.maximum(top, shaped)
            extra = np.exp(shaped - top)
        terms = np.exp(scores - top)
        found: Floats = terms / (np.sum(terms, axis=axes, keepdims=True) + extra)
    return found


def kv_heads_of(heads: int, kv_heads: int, pattern: str = "repeated") -> list[int]:
    """Return the key-value head of each query head.

    Examples
    --------
    >>> kv_heads_of(6, 2), kv_heads_of(6, 2, "tiled")
    ([0, 0, 0, 1, 1, 1], [0, 1, 0, 1, 0, 1])
    """
    if pattern == "tiled":
        return [h % kv_heads for h in range(heads)]
    if pattern == "stuck":
        return [0] * heads
    return [h // (heads // kv_heads) for h in range(heads)]


def scores_of(query: Floats, key: Floats, normalises: tuple[str, ...] = ()) -> Floats:
    """Return q·k, or the cosine where lengths do not matter."""
    query = _unit(query) if "query" in normalises else query
    key = _unit(key) if "key" in normalises else key
    return query @ key.swapaxes(-1, -2)


def _unit(array: Floats) -> Floats:
    with quiet():
        length = np.linalg.norm(array, axis=-1, keepdims=True)
        return np.where(length > 0.0, array / length, 0.0)


@dataclass(frozen=True, kw_only=True)
class Model:
    """The function as far as it is known.

    ``scale`` and ``factor`` (of the weights) are functions of the sizes; ``bias`` gives what is
    added to the scores of given sizes; ``visible`` what the plain call shows.
    """

    scale: Callable[[Sizes], float | Floats]
    factor: Callable[[Sizes], float] = lambda _: 1.0
    softcap: tuple[float, str] | None = None
    bias: Callable[[Sizes], Floats] | None = None
    visible: Callable[[Sizes], Any] | None = None
    normalises: tuple[str, ...] = ()
    axis: str = "keys"
    times: int = 1
    renormalised: bool = False
    sink: Floats | None = None
    kv_pattern: str = "repeated"
    known: bool = field(default=True)

    def having(self, **changes: Any) -> Model:
        """Return the model with changes."""
        return replace(self, **changes)

    def scores(
        self,
        query: Floats,
        key: Floats,
        *,
        bias: Floats | None = None,
        value_dim: int | None = None,
    ) -> Floats:
        """Return the scores before the mask."""
        heads = kv_heads_of(query.shape[1], key.shape[1], self.kv_pattern)
        key = key[:, heads]
        sizes = sizes_of(query, key, key)
        sizes = replace(sizes, value_dim=value_dim or sizes.value_dim)
        scores = self.scale(sizes) * scores_of(query, key, self.normalises)
        if self.softcap is not None:
            scores = capped(scores, *self.softcap)
        if self.bias is not None:
            scores = scores + self.bias(sizes)
        return scores if bias is None else scores + bias

    def weights(
        self,
        query: Floats,
        key: Floats,
        *,
        bias: Floats | None = None,
        mask: Any = None,
        value_dim: int | None = None,
    ) -> Floats:
        """Return the weights ``(batch, heads, queries, keys)``."""
        scores = self.scores(query, key, bias=bias, value_dim=value_dim)
        sizes = sizes_of(query, key, key)
        sizes = replace(sizes, value_dim=value_dim or sizes.value_dim)
        for visible in (mask, self.visible(sizes) if self.visible is not None else None):
            if visible is not None:
                scores = np.where(visible, scores, -np.inf)
        found = softmax(scores, self.axis, self.sink)
        for _ in range(self.times - 1):
            found = softmax(found, self.axis)
        if self.renormalised:
            with quiet():
                found = found / np.sum(found, axis=-1, keepdims=True)
        return found * self.factor(sizes)

    def output(
        self,
        query: Floats,
        key: Floats,
        value: Floats,
        *,
        bias: Floats | None = None,
        mask: Any = None,
    ) -> Floats:
        """Return the output ``(batch, heads, queries, value_dim)``."""
        heads = kv_heads_of(query.shape[1], key.shape[1], self.kv_pattern)
        found = self.weights(query, key, bias=bias, mask=mask, value_dim=value.shape[3])
        with quiet():
            return np.asarray(found @ value[:, heads])
