"""One row of attention, followed from its scores to the Jacobian of its softmax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rootdk._lib.errors import ArgumentError
from rootdk.attention import SoftmaxJacobian, entropy_nats

__all__ = ["Followed", "follow", "keys_of"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Followed:
    """What becomes of one row of scores.

    Attributes
    ----------
    scores, weights : array
        ``(keys,)``.
    diagonal : array
        ``(keys,)``; w(1 − w), how much each weight moves with its own score.
    largest_entry : float
        The largest entry of the Jacobian in magnitude, w_max(1 − w_max).
    entropy : float
        In nats.
    """

    scores: Floats
    weights: Floats
    diagonal: Floats
    largest_entry: float
    entropy: float


def follow(scores: Any) -> Followed:
    """Return what becomes of one row of scores, ``(keys,)``."""
    scores = np.asarray(scores, dtype=np.float64)
    jacobian = SoftmaxJacobian.from_scores(scores)
    return Followed(
        scores=scores,
        weights=np.asarray(jacobian.weights),
        diagonal=np.diag(np.asarray(jacobian.dense())),
        largest_entry=float(jacobian.max_entry),
        entropy=float(entropy_nats(jacobian.weights)),
    )


def keys_of(query: tuple[float, ...], keys: tuple[float, ...]) -> Floats:
    """Return keys that were written one after another as ``(keys, head_dim)``.

    Raises
    ------
    ArgumentError
        If they are not a whole number of keys as wide as the query.
    """
    if len(keys) % len(query):
        raise ArgumentError(
            f"keys hold {len(keys)} entries; expected a multiple of the query's {len(query)}"
        )
    return np.reshape(np.asarray(keys), (-1, len(query)))
