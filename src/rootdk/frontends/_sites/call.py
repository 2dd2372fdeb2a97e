"""One fused attention call, and what it should give."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from rootdk._lib.arrays import Array, namespace, quiet, to_numpy
from rootdk.frontends._sites.numbers import (
    Floats,
    chosen,
    count,
    doubles,
    lifted,
    norms,
    picked,
    products,
    span,
    within_reach,
)
from rootdk.frontends._sites.recompute import softmax_of
from rootdk.records import Addend

__all__ = ["Call", "Rows"]

Rows = npt.NDArray[np.int64]


@dataclass
class Call:
    """One fused attention call with everything on (batch, heads, positions, width)."""

    query: Array
    key: Array
    value: Array
    scale: float
    bias: Array | None = None
    visible: Array | None = None
    meant: Array | None = None
    causal: bool = False
    softcap: float | None = None
    bias_factor: float = 1.0
    learned_bias: bool = False
    fills: list[Addend] = field(default_factory=list)

    def scores(self, batch: int, head: int, rows: Rows) -> Floats:
        """The final scores of some rows of one head, (rows, keys), in float64."""
        return self._scores_of(*self._sides(batch, head, rows), batch, head, rows)

    def _sides(self, batch: int, head: int, rows: Rows) -> tuple[Floats, Floats]:
        """The queries of some rows of one head, and its keys."""
        queries, keys, _ = self._at_hand
        query = picked(queries[batch, head], [rows])
        return query, doubles(keys[batch, self._kv(head, self.key)])

    def _scores_of(self, query: Floats, key: Floats, batch: int, head: int, rows: Rows) -> Floats:
        with quiet():
            scores: Any = products(query, key.T, self.key) * self.scale
            if self.softcap is not None:
                scores = self.softcap * np.tanh(scores / self.softcap)
            if self.bias is not None:
                scores = scores + _rows(self.bias, batch, head, rows)
        if self.visible is not None:
            scores = np.where(_rows(self.visible, batch, head, rows) != 0, scores, -math.inf)
        if self.causal:
            after = np.arange(scores.shape[-1])[None, :] > rows[:, None]
            scores = np.where(after, -math.inf, scores)
        return np.asarray(scores)

    @cached_property
    def _at_hand(self) -> tuple[Array, Array, Array]:
        return within_reach(self.query), within_reach(self.key), within_reach(self.value)

    def rows_seeing(self, batch: int, head: int) -> Rows:
        """The rows of one head that have a visible key."""
        queries, keys = int(self.query.shape[2]), int(self.key.shape[2])
        if not keys:
            return np.arange(0)
        if self.visible is None:
            # The first key is visible to every row of a causal call.
            return np.arange(queries)
        mask = _rows(self.visible, batch, head, np.arange(queries)) != 0
        if not self.causal:
            seeing = np.broadcast_to(mask.any(-1), (queries,))
        else:
            # A row sees its first visible key, or none.
            first = np.where(mask.any(-1), mask.argmax(-1), keys)
            seeing = first <= np.arange(queries)
        return np.flatnonzero(seeing)

    def output(self, batch: int, head: int, rows: Rows) -> Floats:
        """Some rows of one head's output, (rows, value_dim), in float64; empty rows are 0."""
        return self.outputs(batch, head, rows)[0]

    def outputs(self, batch: int, head: int, rows: Rows) -> tuple[Floats, float]:
        """The same, and the largest |query|·|key|·scale: what rounding errors grow with."""
        query, key = self._sides(batch, head, rows)
        value = doubles(self._at_hand[2][batch, self._kv(head, self.value)])
        weights = self._weights_of(self._scores_of(query, key, batch, head, rows))
        with quiet():
            largest = float(norms(query).max() * norms(key).max())
            reach = (0.0 if math.isnan(largest) else largest) * abs(self.scale)
            return products(weights, value, self.value), reach

    def weights(self, batch: int, head: int, rows: Rows) -> Floats:
        """The weights of some rows of one head, (rows, keys), in float64; empty rows are 0."""
        return self._weights_of(self.scores(batch, head, rows))

    @staticmethod
    def _weights_of(scores: Floats) -> Floats:
        weights = softmax_of(scores)
        weights[np.isnan(weights)] = 0.0
        return weights

    def meant_rows(self, batch: int, head: int, rows: Rows) -> npt.NDArray[Any]:
        """Where a mask that hides nothing was meant to hide keys, in rows that have others."""
        assert self.meant is not None
        meant = _rows(self.meant, batch, head, rows) != 0
        return np.asarray(meant & ~meant.all(-1, keepdims=True))

    def largest_value(self, batch: int) -> float:
        """The largest |value| of one batch entry that is no NaN."""
        value = self.value[batch]
        xp = namespace(value)
        ends = span(value) if count(value) else (0.0, 0.0)
        if not math.isnan(ends[0] + ends[1]):
            return max(-ends[0], ends[1])
        sizes = xp.abs(chosen(xp.isnan(value), 0.0, value))
        return float(xp.max(sizes)) if count(value) else 0.0

    def _kv(self, head: int, shared: Array) -> int:
        return head // max(int(self.query.shape[1]) // max(int(shared.shape[1]), 1), 1)


def _rows(array: Array, batch: int, head: int, rows: Rows) -> npt.NDArray[Any]:
    """The rows of a mask or bias that broadcasts to the scores."""
    array = lifted(array, 4)
    one = array[batch if array.shape[0] != 1 else 0, head if array.shape[1] != 1 else 0]
    return picked(one, [rows]) if one.shape[0] != 1 else to_numpy(one)
