"""Mistakes in attention as functions of query, key and value, and the layer that each needs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rootdk.lab._layer import Attend

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["MISTAKES", "Mistake", "right", "twice", "unscaled", "width_scaled"]


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """One mistake: what it is called, what is computed, and where.

    Attributes
    ----------
    name : str
        The mistake in words.
    computed : str
        What the layer computes, as a formula.
    attend : callable
        From query, key and value to the output.
    gain : float
        What the query and key projections are multiplied by.
    directions : int
        How many directions all tokens share; 0 for independent entries.
    tied : bool
        Whether query and key have one projection.
    state : str
        ``"init"`` or ``"trained"``: how the layer is to be judged.
    """

    name: str
    computed: str
    attend: Attend
    gain: float = 1.0
    directions: int = 0
    tied: bool = False
    state: str = "init"


def right(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """As it should be."""
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v


def unscaled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Nothing divides the scores."""
    return (q @ k.mT).softmax(-1) @ v


def width_scaled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The root is of the width of the model."""
    return (q @ k.mT / math.sqrt(q.shape[1] * q.shape[-1])).softmax(-1) @ v


def twice(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Once by hand, once in the library."""
    from torch.nn.functional import scaled_dot_product_attention

    return scaled_dot_product_attention(q / math.sqrt(q.shape[-1]), k, v)


def _unrooted(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / q.shape[-1]).softmax(-1) @ v


def _length_scaled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / math.sqrt(k.shape[-2])).softmax(-1) @ v


def _scaled_after(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT).softmax(-1) / math.sqrt(q.shape[-1]) @ v


def _unstable(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    exponentials = (q @ k.mT / math.sqrt(q.shape[-1])).exp()
    return exponentials / exponentials.sum(-1, keepdim=True) @ v


def _over_queries(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-2) @ v


MISTAKES = (
    Mistake(
        name="dividing by d instead of sqrt(d)",
        computed="softmax(QKᵀ/d)V",
        attend=_unrooted,
    ),
    Mistake(
        name="sequence length used as d",
        computed="softmax(QKᵀ/√n)V",
        attend=_length_scaled,
    ),
    Mistake(
        name="scaling after softmax",
        computed="softmax(QKᵀ)V/√d",
        attend=_scaled_after,
    ),
    Mistake(
        name="exponentials of large scores without subtracting the row maximum",
        computed="exp(s)/Σexp(s) V, s = QKᵀ/√d of entries of size 5",
        attend=_unstable,
        gain=5.0,
    ),
    Mistake(
        name="softmax over the wrong axis",
        computed="softmax over the queries of QKᵀ/√d, times V",
        attend=_over_queries,
    ),
    Mistake(
        name="expecting scaled weights to be uniform",
        computed="softmax(QKᵀ/√d)V: nothing is wrong with it",
        attend=right,
    ),
    Mistake(
        name="taking the independence assumption as a fact about a trained model",
        computed="softmax(QKᵀ/√d)V, queries and keys along two shared directions",
        attend=right,
        directions=2,
        tied=True,
        state="trained",
    ),
    Mistake(
        name="runs compared without a seed or package versions",
        computed="softmax(QKᵀ/√d)V under another seed: nothing is wrong with it",
        attend=right,
    ),
    Mistake(
        name="model width used instead of the per-head width (spread off by sqrt(num_heads))",
        computed="softmax(QKᵀ/√d_model)V",
        attend=width_scaled,
    ),
    Mistake(
        name="scale applied twice, once by hand and once in a library call (spread near 1/sqrt(d))",
        computed="library(Q/√d, K, V)",
        attend=twice,
    ),
    Mistake(
        name="scale missing (spread near sqrt(d))",
        computed="softmax(QKᵀ)V",
        attend=unscaled,
    ),
    Mistake(
        name="entries not of unit size (spread off by another factor: look at the spread of Q and "
        "K, then at initialisation and input normalisation)",
        computed="softmax(QKᵀ/√d)V of entries of size 2",
        attend=right,
        gain=2.0,
    ),
    Mistake(
        name="queries and keys that grow during training until scores saturate (remedy: QK-norm)",
        computed="softmax(QKᵀ/√d)V of entries of size 4, trained",
        attend=right,
        gain=4.0,
        state="trained",
    ),
)
