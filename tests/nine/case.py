"""What a case of a silent error is: a model, and what may be said of its scale.

Nine patterns once made a tracer read a wrong scale, or no attention at all, without a word. The
models here are those patterns, each in a few variants: ``CASES`` in the registry holds them all,
``of_error(n)`` those of one pattern, for tests that take the graph's rule for it away.
"""

from dataclasses import dataclass
from enum import IntEnum

import torch
from lookalikes.design import Design
from torch import Tensor

__all__ = ["VERDICTS", "Case", "Silent", "silent"]


class Silent(IntEnum):
    """The nine patterns."""

    SCALAR_FROM_A_SHAPE = 1
    NUMPY_ROUND_TRIP = 2
    MAP_OVER_SCORES = 3
    SCALE_PER_CHANNEL = 4
    UNSCALED_TERM = 5
    ADDED_TO_ITSELF = 6
    SLICES_APART = 7
    CUSTOM_OPERATOR = 8
    SCALAR_OF_THE_PROJECTION = 9


@dataclass(frozen=True, kw_only=True)
class Case:
    """One model and the truth about it.

    ``scale`` is the true effective scale, None where no one number is true: then the site is
    unresolved, or a factor without a number is listed. ``constants`` is the product of the
    constant factors alone, which may be given where the others are listed as no constants.
    ``term``: a further product must be seen among what is added to the scores. ``operator``: a
    name that must be among the unhandled. ``unresolved``: the site cannot be understood.
    ``opaque``: there may be no site, where something is said to be unhandled.
    """

    model: type[Design]
    error: Silent
    scale: float | None
    constants: float | None = None
    term: frozenset[str] = frozenset()
    operator: str | None = None
    unresolved: bool = False
    opaque: bool = False

    @property
    def identity(self) -> str:
        """For test ids: the pattern and the class."""
        return f"{self.error.name.lower()}-{self.model.__name__}"

    def build(self, seed: int) -> tuple[Design, tuple[Tensor, ...]]:
        """The model in evaluation mode, and what to call it with."""
        torch.manual_seed(seed)
        model = self.model().eval()
        return model, model.inputs()


VERDICTS: dict[type[Design], Case] = {}


def silent(error: Silent, *, scale: float | None, **truth):
    """Enter the truth about a model."""

    def enter(model: type[Design]) -> type[Design]:
        VERDICTS[model] = Case(model=model, error=error, scale=scale, **truth)
        return model

    return enter
