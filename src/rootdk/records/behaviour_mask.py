"""What a function does with masks, biases, causal order and windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

__all__ = ["CausalAt", "EmptyRows", "MaskFacts", "WindowAt"]

EmptyRows = Literal[
    "zero", "nan", "uniform", "as-unmasked", "uniform-over-visible-to-causal", "other", "refused"
]
"""What a row without a visible key gives.

``uniform``: the mean of all values, forbidden ones; ``as-unmasked``: what it gives without the
mask; ``uniform-over-visible-to-causal``: the mean over the keys that causal order alone allows.
"""


@dataclass(frozen=True, kw_only=True)
class CausalAt:
    """Which keys a causal call showed, at one shape.

    ``last_visible[i]`` is the last key that query i sees, −1 for none; ``contiguous``: every key
    up to it is seen as well. ``reversed``: no query sees a key before its own, but later ones.
    """

    queries: int
    keys: int
    last_visible: tuple[int, ...]
    contiguous: bool = True
    reversed: bool = False

    @property
    def offset(self) -> int | None:
        """Key minus query on the diagonal, when all queries in the middle agree on one."""
        inner = {
            last - i
            for i, last in enumerate(self.last_visible)
            if -1 < last < self.keys - 1 or (last == self.keys - 1 and i == self.queries - 1)
        }
        return inner.pop() if len(inner) == 1 else None


@dataclass(frozen=True, kw_only=True)
class WindowAt:
    """A window asked for and the keys seen before and after the diagonal; None is open."""

    argument: str
    asked: str
    asked_reach: tuple[int | None, int | None]
    seen_reach: tuple[int | None, int | None]
    queries: int
    keys: int


_NO_EMPTY: Mapping[str, EmptyRows] = MappingProxyType({})
_NO_BROADCASTS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class MaskFacts:
    """Masks and biases, each read off weights.

    ``boolean``: what True does: ``true_attends``, ``true_forbids``, ``none`` (no effect),
    ``added`` (True and False count as 1 and 0), ``other``. ``documented`` is what the
    argument's own name or library says it should do. ``bias_factor`` is what a finite bias b acts
    as, over b (1 is right; the scale, when it is scaled with the scores), at query = 0;
    ``bias_factor_law`` names it.

    ``leak`` is the largest weight on a forbidden key (boolean mask), at visible scores about
    ``leak_shift`` and forbidden ones ``leak_gap`` above them; ``bias_leak`` the same with −inf
    given as a bias. ``fill`` is the number that leaking weights point to, if one explains them.

    ``after_softmax``: what a mask leaves sums to less than 1, by what forbidden keys held.
    ``causal``: what the causal flag showed at each shape. ``alignment``: one word for it:
    ``top_left``, ``bottom_right``, ``none`` (no effect), ``inverted`` (the past is hidden and
    the future shown), ``mixed`` (depends on which side is longer), ``off-by-one`` (with
    ``alignment_offset``, from the nearer corner) or ``other``.
    ``always_causal``: the plain call is causal without being asked.

    ``forbidden_values``: how far an allowed output moved when forbidden keys and values were
    ±1e30 (or as large as the dtype holds); ``nonfinite_values`` says what NaN in a forbidden
    value does (``passes``: it reaches the output, as in any dense product; ``stopped``).
    ``empty_rows`` is by the way the row was emptied: ``mask``, ``bias``, ``causal``.
    ``forbidden_reach_empty``: how far the output of an empty row follows the forbidden values.
    ``broadcasts`` maps a mask's shape pattern to ``ok``, ``wrong`` or ``refused``.
    ``per_sample``, ``per_head``: a mask that differs by sample (head) acts on its own one.
    """

    argument: str | None = None
    bias_argument: str | None = None
    boolean: Literal["true_attends", "true_forbids", "none", "added", "other"] | None = None
    documented: Literal["true_attends", "true_forbids"] | None = None
    bias_factor: float | None = None
    bias_factor_law: str | None = None
    leak: float | None = None
    leak_shift: float | None = None
    leak_gap: float | None = None
    bias_leak: float | None = None
    fill: float | None = None
    after_softmax: bool | None = None
    masked_sum_min: float | None = None
    causal_argument: str | None = None
    causal: tuple[CausalAt, ...] = ()
    alignment: (
        Literal["top_left", "bottom_right", "none", "inverted", "mixed", "off-by-one", "other"]
        | None
    ) = None
    alignment_offset: int | None = None
    always_causal: bool | None = None
    decode: CausalAt | None = None
    window: tuple[WindowAt, ...] = ()
    forbidden_values: float | None = None
    forbidden_bound: float | None = None
    nonfinite_values: Literal["passes", "stopped"] | None = None
    empty_rows: Mapping[str, EmptyRows] = field(default_factory=lambda: _NO_EMPTY)
    forbidden_reach_empty: float | None = None
    broadcasts: Mapping[str, str] = field(default_factory=lambda: _NO_BROADCASTS)
    per_sample: bool | None = None
    per_head: bool | None = None
