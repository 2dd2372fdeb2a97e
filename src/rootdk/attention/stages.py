"""The stages of attention, by name, and the record of one call's arrays at each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rootdk._lib.arrays import Array, dtype_name


class Stage(Enum):
    """A point on the way from query and key to the output, in the order of computation.

    Attributes
    ----------
    RAW
        q·k, before anything else.
    SCALED
        Times the scale.
    SOFTCAPPED
        softcap·tanh(s/softcap); as SCALED without a softcap.
    BIASED
        With the bias added, and −inf where a query may not attend.
    WEIGHTS
        The softmax over keys.
    OUTPUT
        The weighted sum of the values.
    """

    RAW = "raw"
    SCALED = "scaled"
    SOFTCAPPED = "softcapped"
    BIASED = "biased"
    WEIGHTS = "weights"
    OUTPUT = "output"


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Stages:
    """One attention call's arrays at every stage.

    Scores and weights are ``(batch, num_heads, queries, keys)`` in the dtype computed in
    (float32 for half types); batch and heads are there if the query has them.

    Attributes
    ----------
    raw, scaled, softcapped, biased : array
        Scores at each stage. The first three hold forbidden places too.
    visible : boolean array
        Where a query may attend, in the shape of the scores.
    weights : array
        Weights; 0 at forbidden places, and in empty rows everywhere.
    output : array
        ``(batch, num_heads, queries, value_dim)``, in the dtype of the query.
    scale : float
        The multiplier that was used.

    Examples
    --------
    >>> import numpy as np
    >>> from rootdk.attention import attention
    >>> one = np.ones((1, 4))
    >>> stages = attention(one, one, one, return_stages=True)
    >>> stages
    Stages(scores=(1, 1) float64, output=(1, 4) float64, scale=0.5)
    >>> float(stages.at(Stage.RAW)[0, 0]), float(stages.at(Stage.SCALED)[0, 0])
    (4.0, 2.0)
    """

    raw: Array
    scaled: Array
    softcapped: Array
    biased: Array
    visible: Array
    weights: Array
    output: Array
    scale: float

    def at(self, stage: Stage) -> Array:
        """Return the array at one stage."""
        return getattr(self, stage.value)

    def __repr__(self) -> str:
        scores = f"{tuple(self.raw.shape)} {dtype_name(self.raw)}"
        output = f"{tuple(self.output.shape)} {dtype_name(self.output)}"
        return f"Stages(scores={scores}, output={output}, scale={self.scale!r})"
