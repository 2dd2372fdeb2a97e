"""What a probe works with: the function, inputs that fit its regime, and the notebook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from rootdk._lib.arrays import float_info, quiet
from rootdk.identify.literals import assigned, literal
from rootdk.identify.model import Model
from rootdk.identify.notebook import Notebook
from rootdk.identify.subject import Floats, Refused, Subject
from rootdk.records import Refusal, Sizes, Witness

__all__ = ["Bench", "NotReady"]

_NOTHING: Mapping[str, object] = MappingProxyType({})


class NotReady(Exception):
    """Raised by a probe that lacks what an earlier one could not find out, with the reason."""


@dataclass
class Bench:
    """The state of one identification."""

    subject: Subject
    notebook: Notebook
    sizes: Sizes
    seed: int = 0
    expected: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    model: Model | None = None
    normalises: tuple[str, ...] = ()
    amplitude: float = 1.0
    wanted_width: int | None = None
    hides: bool = False
    mask_inverted: bool = False
    bias_meaning: str | None = None
    minus_infinity_hides: bool = False
    dtype_asked: str | None = None
    causal_value: dict[str, Any] | None = None
    formula: str | None = None
    skipped: dict[str, str] = field(default_factory=dict)
    is_random: bool = False
    inner_dtype: str | None = None

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    @property
    def eps(self) -> float:
        """The distance from 1 to the next number in the dtype of the measurements.

        In that of a narrower one, if no more digits than that are kept inside the function.
        """
        return float_info(self.inner_dtype or self.subject.dtype).eps

    @property
    def has_mask(self) -> bool:
        """Whether a boolean mask over queries and keys is taken, and hides."""
        hides = self.notebook.get("mask.boolean") in ("true_attends", "true_forbids")
        return hides and self.subject.takes("mask")

    def tolerance(self, scores: float = 1.0) -> float:
        """How far a log-weight may be off by rounding, in nats, at scores of some size."""
        return max(1e-4, 8.0 * self.eps) * (1.0 + abs(scores))

    def with_sizes(self, **changes: int) -> Sizes:
        """Return the base sizes with changes; key–value heads follow the heads."""
        if "heads" in changes and "kv_heads" not in changes:
            changes["kv_heads"] = changes["heads"]
        if "head_dim" in changes and self.subject.same_width:
            changes["value_dim"] = changes["head_dim"]
        return replace(self.sizes, **changes)

    def query_key(self, sizes: Sizes, amplitude: float = 1.0) -> tuple[Floats, Floats]:
        """Return random query (of standard deviation ``amplitude``) and key, as rounded."""
        query = self.rng.standard_normal((sizes.batch, sizes.heads, sizes.queries, sizes.head_dim))
        key = self.rng.standard_normal((sizes.batch, sizes.kv_heads, sizes.keys, sizes.head_dim))
        return self.subject.rounded(amplitude * query), self.subject.rounded(key)

    def random_value(self, sizes: Sizes) -> Floats:
        """Return random values of size 1, as rounded."""
        shape = (sizes.batch, sizes.kv_heads, sizes.keys, sizes.value_dim)
        return self.subject.rounded(self.rng.standard_normal(shape))

    def weights(self, query: Floats, key: Floats, **asked: Any) -> Floats:
        """Return the weights ``(batch, heads, queries, keys)``, read off one-hot values.

        Each sample and head reads its own key–value head; see :meth:`influence` for the rest.
        """
        batch, kv_heads, keys = key.shape[:3]
        identity = np.broadcast_to(np.eye(keys), (batch, kv_heads, keys, keys))
        return self.columns(query, key, identity, **asked)

    def masked(self, query: Floats, key: Floats, mask: Any, **asked: Any) -> Floats:
        """Return the weights under a mask that is True where a query may attend."""
        return self.weights(query, key, mask=~mask if self.mask_inverted else mask, **asked)

    def influence(self, query: Floats, key: Floats, **asked: Any) -> Floats:
        """Return how every value moves every output, ``(B, H, Q, B, G, K)``, G kv heads."""
        batch, kv_heads, keys = key.shape[:3]
        count = batch * kv_heads * keys
        identity = np.eye(count).reshape(batch, kv_heads, keys, count)
        found = self.columns(query, key, identity, **asked)
        return found.reshape(*found.shape[:3], batch, kv_heads, keys)

    def columns(self, query: Floats, key: Floats, value: Floats, **asked: Any) -> Floats:
        """Return the output for values of any width, in calls of the width that is taken."""
        wanted = value.shape[3]
        width = query.shape[3] if self.subject.same_width else self._width(wanted, query.shape)
        parts = []
        for start in range(0, wanted, width):
            part = value[..., start : start + width]
            padding = [(0, 0)] * 3 + [(0, width - part.shape[3])]
            output = self.subject.output(query, key, np.pad(part, padding), **asked)
            parts.append(output[..., : part.shape[3]])
        return np.concatenate(parts, axis=-1)

    def width(self, sizes: Sizes) -> int:
        """Return the width of the values with which weights of these sizes are read."""
        if self.subject.same_width:
            return sizes.head_dim
        shape = (sizes.batch, sizes.heads, sizes.queries, sizes.head_dim)
        return self._width(sizes.keys, shape)

    def _width(self, wanted: int, query: tuple[int, ...]) -> int:
        """Return a width of the values that no other size has."""
        if self.wanted_width is not None:
            return self.wanted_width
        if query[2] <= self.sizes.value_dim and wanted <= self.sizes.value_dim:
            return self.sizes.value_dim
        width = wanted + 3
        return width + 1 if width in query else width

    def log_weights(self, weights: Floats) -> Floats:
        """Return scores up to a constant along the softmax's axis, NaN where nothing is seen."""
        with quiet():
            found = np.where(weights > 1e-37, np.log(weights), np.nan)
            if self.notebook.get("softmax.times", 1) == 2:
                seen = np.sum(np.isfinite(found), axis=-1, keepdims=True)
                # The first softmax sums to 1, which gives the constant that log leaves open.
                first = found + (1.0 - np.nansum(found, axis=-1, keepdims=True)) / seen
                found = np.where(first > 1e-7, np.log(first), np.nan)
        return found

    def attempt(self, probe: str, what: str, call: Any) -> Any:
        """Return what a call gives, None if the function refuses, which is written down."""
        try:
            return call()
        except Refused as refusal:
            self.refused(probe, what, refusal)
            return None

    def refused(self, probe: str, what: str, refusal: Refused) -> None:
        """Write down a refusal, once."""
        kind = refusal.kind if refusal.kind in ("hung", "wrong-shape") else "raised"
        entry = Refusal(
            probe=probe,
            what=what,
            error=refusal.error,
            kind=kind,  # type: ignore[arg-type]
            same_shapes_worked=refusal.same_shapes_worked,
        )
        if entry not in self.notebook.refusals:
            self.notebook.refusals.append(entry)

    def need_model(self) -> Model:
        """Return the model.

        Raises
        ------
        NotReady
            If the plain call was not understood.
        """
        if self.model is None:
            raise NotReady("what the plain call computes was not understood")
        return self.model

    def witness(
        self,
        fact: str,
        statement: str,
        query: Floats,
        key: Floats,
        value: Floats,
        *,
        seen: str,
        expected: str,
        setup: tuple[str, ...] = (),
        dtype: str | None = None,
        asked: Mapping[str, Any] = _NOTHING,
    ) -> None:
        """Write down the smallest input that shows a fact; the first for a fact stays."""
        own = self.subject.arguments(query, key, dict(asked))
        made = Witness(
            statement=statement,
            setup=(
                *setup,
                *assigned("query", query),
                *assigned("key", key),
                *assigned("value", value),
            ),
            query="query",
            key="key",
            value="value",
            seen=seen,
            expected=expected,
            arguments=MappingProxyType({name: literal(value) for name, value in own.items()}),
            dtype=dtype or self.subject.dtype,
        )
        self.notebook.witnesses.setdefault(fact, made)
