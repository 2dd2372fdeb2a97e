"""The scale of a function: measured at many sizes, and the law through the measurements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Estimate", "ScaleFacts", "ScaleLaw", "ScalePoint", "Sizes", "Varies"]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes of one call. All differ, so that no fault is right by coincidence."""

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    head_dim: int
    value_dim: int

    @property
    def hidden(self) -> int:
        """The width of the model, heads times head_dim."""
        return self.heads * self.head_dim


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number and how far from the truth it may be."""

    value: float
    uncertainty: float


@dataclass(frozen=True, kw_only=True)
class ScalePoint:
    """The effective scale at one set of sizes.

    ``scale`` is the slope of log-weight ratios on differences of q·k; ``residual`` is the
    largest departure from a line through them, in nats.
    """

    sizes: Sizes
    scale: float
    uncertainty: float
    residual: float


@dataclass(frozen=True, kw_only=True)
class ScaleLaw:
    """constant · head_dim^a · keys^b · queries^e · heads^h · batch^g, fitted to the points.

    ``name`` is the law in symbols when one is known that fits every point (``"1/√head_dim"``,
    ``"1"``, ``"1/head_dim"``, ``"1/√(heads·head_dim)"``, ``"1/√keys"``, ``"1/√heads"``,
    ``"√head_dim"``), or a closed form with a constant (``"0.5/√head_dim"``); None when the
    points follow no power law. ``readings`` are all names that fit, the first is ``name``.
    ``misfit`` is the largest relative distance of a point from the law.
    """

    constant: Estimate
    head_dim: Estimate
    keys: Estimate
    queries: Estimate
    heads: Estimate
    batch: Estimate
    value_dim: Estimate | None = None
    misfit: float
    name: str | None = None
    readings: tuple[str, ...] = ()
    steps: bool = False
    """Whether exponents depend on the range, as when a width is padded to a multiple."""


@dataclass(frozen=True, kw_only=True)
class Varies:
    """A scale that is not one number: what it was along one axis of the scores.

    ``along``: ``query`` or ``key`` (positions), ``head``, ``batch``, ``channel`` (of head_dim),
    or ``run`` (short against long runs of keys). ``at`` are the indices (or lengths), ``scales``
    the slopes there.
    """

    along: Literal["query", "key", "head", "batch", "channel", "run"]
    at: tuple[int, ...]
    scales: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class ScaleFacts:
    """The effective scale: every measurement, the law through them, and where it varies.

    ``value`` is that of the first point, whose sizes are ``points[0].sizes``. ``linear``: scores
    are a linear function of q·k there (no softcap, no normalisation of query or key).
    ``normalised``: lengths of query and key do not matter, only their angle (cosine attention),
    and ``value`` then multiplies the cosine. ``apart`` are points at which one size is 1 (one
    query, one head, a batch of one) and the scale is not the one that all others lead to.
    """

    value: float
    points: tuple[ScalePoint, ...]
    law: ScaleLaw | None = None
    varies: tuple[Varies, ...] = ()
    apart: tuple[ScalePoint, ...] = ()
    linear: bool | None = None
    normalised: bool | None = None
