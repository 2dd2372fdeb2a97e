"""One attention call out of a store, its arrays in one form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from rootdk.attention.masks import Causal, Window

__all__ = ["Kept", "SavedCall", "part"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What the model made of the scores, for some or all query rows.

    ``array`` is (batch, heads, rows, keys) of weights or scores, or (batch, heads, rows,
    value_dim) of an output; ``rows`` are the positions of its query rows.
    """

    kind: Literal["weights", "scores", "output"]
    array: Array
    rows: npt.NDArray[np.int64]
    precision: str


@dataclass(frozen=True, kw_only=True)
class SavedCall:
    """One attention call with everything on (batch, heads, positions, width).

    ``bias`` is what is added; what hides keys has moved into ``mask``, and ``fill`` is the
    lowest number that hid one. ``scale`` is None where none is stored.
    """

    site: str
    query: Array
    key: Array
    value: Array | None
    mask: Array | None
    bias: Array | None
    inputs: Array | None
    scale: float | None
    softcap: float | None
    causal: Causal | None
    window: Window | None
    kept: Kept | None
    score_dtype: str
    masked_by: tuple[tuple[str, float], ...]
    layout: str
    hidden: int | None
    layer: int | None

    def visible(self, batch: int, head: int, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which keys some query rows of one head see, (rows, keys)."""
        keys = np.arange(self.key.shape[2])[None, :]
        seen = np.ones((len(rows), keys.size), dtype=bool)
        left, right = self.window or (None, None)
        right = 0 if self.causal is not None else right
        shift = keys.size - self.query.shape[2] if self.causal == "bottom_right" else 0
        diagonal = rows[:, None] + shift
        if right is not None:
            seen &= keys <= diagonal + right
        if left is not None:
            seen &= keys >= diagonal - left
        if self.mask is not None:
            seen &= part(self.mask, batch, head, rows) != 0
        return seen

    def added(self, batch: int, head: int, rows: npt.NDArray[np.int64]) -> Array | float:
        """What is added to the scores of some query rows of one head."""
        if self.bias is None:
            return 0.0
        return part(self.bias, batch, head, rows).astype(np.float64)

    def kv(self, head: int) -> int:
        """The key-value head of a query head."""
        return head // (int(self.query.shape[1]) // int(self.key.shape[1]))


def part(array: Array, batch: int, head: int, rows: npt.NDArray[np.int64]) -> Array:
    """Return rows of one head of what broadcasts to the scores."""
    one = array[batch if array.shape[0] != 1 else 0, head if array.shape[1] != 1 else 0]
    taken: Array = one[rows] if one.shape[0] != 1 else one
    return taken
