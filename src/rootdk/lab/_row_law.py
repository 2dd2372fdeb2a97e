r"""Expectations over one row of n independent scores, each normal with mean 0.

With :math:`s_j \sim N(0, \sigma^2)` and :math:`Z = \sum_j e^{s_j}`, the weights are
:math:`w_j = e^{s_j} / Z`. Powers of 1/Z are Laplace integrals whose integrand factorises over the
keys. Written over :math:`y = \log t`, with

.. math::

    \varphi(y) = E\, e^{-e^{s + y}}, \qquad A_k(y) = E\, e^{k(s + y)} e^{-e^{s + y}},

they are integrals over the whole line of smooth functions:

.. math::

    E \sum_j w_j^k &= \frac{n}{\Gamma(k)} \int A_k\, \varphi^{n-1}\, dy, \\
    E \sum_{i \ne j} w_i^k w_j^k &= \frac{n(n-1)}{\Gamma(2k)} \int A_k^2\, \varphi^{n-2}\, dy, \\
    E \log Z &= \int (\varphi - \varphi^n)\, dy \quad \text{(Frullani; } E \log e^{s} = 0),

and for the largest weight, with :math:`\varphi(a, y)` the part of φ from :math:`s + y < a`,

.. math::

    E\, w_{\max}^k = \frac{n}{\Gamma(k)} \int\!\!\int e^{k a} e^{-e^{a}}\, \varphi(a, y)^{n-1}
    \, p_\sigma(a - y)\, da\, dy .

By Stein's lemma :math:`E \sum w s = \sigma^2 E \sum_{i \ne j} w_i w_j`, so the entropy is
:math:`E \log Z` less that. The trapezoidal rule in y and Gauss–Legendre panels in a give all of
them to about 1e-12.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rootdk._lib.extras import require
from rootdk.lab._quadrature import Floats, Panels, lattice_sums, to_the_right

__all__ = ["QUANTITIES", "row_expectations"]

QUANTITIES = (
    "max_weight", "entropy_nats", "squared_weights",
    "jacobian_max", "jacobian_squared", "log_normaliser",
)  # fmt: skip
"""Mean of: the largest weight, the entropy, Σw², w_max(1 − w_max), ‖diag(w) − w wᵀ‖² (Frobenius),
and log Σ e^s, with s counted from what all scores of a row share.

Their order is that of the rows that ``row_expectations`` returns.
"""

FROM, TO = -36.0, 4.0
"""Outside of it e^(-e^x) is 1 or 0 to double precision."""

TAIL = 8.5
"""Standard deviations of a normal beyond which there is less than 1e-16."""


def row_expectations(spread: float, keys: int) -> Floats:
    """Return the expectations for scores of this standard deviation.

    Parameters
    ----------
    spread : float
        Standard deviation of the scores.
    keys : int
        How many there are.

    Returns
    -------
    array
        ``(2, quantities)``: the values, and the same from half the points. The error of the
        first is far smaller than their difference.

    Examples
    --------
    Two keys: the largest weight is the logistic function of |s₁ − s₂|.

    >>> values, _ = row_expectations(1.0, 2)
    >>> gaps = np.linspace(0, 12, 4001)
    >>> density = np.exp(-(gaps**2) / 4) / np.sqrt(np.pi)
    >>> by_hand = np.trapezoid(density / (1 + np.exp(-gaps)), gaps)
    >>> bool(abs(values[0] - by_hand) < 1e-6)
    True
    """
    if keys == 1:
        return np.array([[1.0, 0.0, 1.0, 0.0, 0.0, 0.0]] * 2)
    # the largest of many scores varies less, by √(2 ln n)
    law = _Shifted.by(spread, parts=16 if keys <= 1000 else 32)
    exponential = np.exp(law.place)
    kept = np.exp(-exponential)
    lost = law.mean(-np.expm1(-exponential)) + law.beyond
    log_kept = np.log1p(-np.minimum(lost, _ALMOST_ONE))
    others = np.exp((keys - 1) * log_kept)
    first, *moments = (law.mean(exponential**power * kept) for power in (1, 2, 3, 4))
    two_of_them = keys * (keys - 1.0) * np.exp((keys - 2) * log_kept)
    columns = [
        np.exp(log_kept) - np.exp(keys * log_kept),
        first**2 * two_of_them,
        moments[0] ** 2 * two_of_them / 6.0,
        *(keys * moment * others for moment in moments),
        *_largest(law, exponential, kept, lost, keys),
    ]
    sums = lattice_sums(np.stack(columns, axis=-1), law.step)
    log_z, pairs, squared_pairs, second, third, fourth, top, top_squared = sums.T
    squared = second - third + fourth / 6.0 + squared_pairs
    entropy = log_z - spread**2 * pairs
    return np.stack([top, entropy, second, top - top_squared, squared, log_z], axis=-1)


_ALMOST_ONE = 1.0 - 2.0**-53


@dataclass(frozen=True, kw_only=True)
class _Shifted:
    """The law of s + y, for each y of a lattice, in nodes and weights.

    A narrow law is followed by nodes that move with y; a wide one is smooth over the range in
    which the exponentials change, and shares the nodes there.

    Attributes
    ----------
    step : float
        Between the points of the lattice of y.
    place : array
        Where s + y is, ``(points or 1, panels, order)``.
    density : array
        Of s + y there, in the variable of the panels, ``(points or 1, panels, order)``.
    panels : Panels
        The variable.
    beyond : array
        Probability of s + y above the last panel, ``(points,)``.
    """

    step: float
    place: Floats
    density: Floats
    panels: Panels
    beyond: Floats

    @classmethod
    def by(cls, spread: float, *, parts: int = 16) -> _Shifted:
        step = max(0.25, spread / parts)
        points = np.arange(FROM - TAIL * spread, TO + TAIL * spread + step, step)
        if spread <= 1.0:
            panels = Panels.over(-TAIL, TAIL, width=2.0)
            place = points[:, None, None] + spread * panels.nodes
            density = _normal(panels.nodes)[None]
            beyond = np.zeros_like(points)
        else:
            panels = Panels.over(FROM, TO, width=2.0)
            place = panels.nodes[None]
            density = _normal((place - points[:, None, None]) / spread) / spread
            special = require("scipy.special", extra="lab", purpose="for exact expectations")
            beyond = special.ndtr((points - TO) / spread)
        return cls(step=step, place=place, density=density, panels=panels, beyond=beyond)

    def mean(self, values: Floats) -> Floats:
        """Return the mean of values at the nodes, ``(points,)``."""
        found: Floats = (self.density * self.panels.weights * values).sum(axis=(1, 2))
        return found


def _largest(
    law: _Shifted, exponential: Floats, kept: Floats, lost: Floats, keys: int
) -> tuple[Floats, Floats]:
    """Return what sums over the lattice to E w_max and E w_max², ``(points,)`` each."""
    density = law.density * kept
    panels = (density * law.panels.weights).sum(axis=2)
    later = panels[:, ::-1].cumsum(axis=1)[:, ::-1] - panels
    half = law.panels.weights.sum(axis=1)[:, None] / 2.0
    here = (density @ to_the_right().T) * half
    above = lost[:, None, None] + later[:, :, None] + here
    others = keys * np.exp((keys - 1) * np.log1p(-np.minimum(above, _ALMOST_ONE)))
    first = law.mean(exponential * kept * others)
    second = law.mean(exponential**2 * kept * others)
    return first, second


def _normal(x: Floats) -> Floats:
    found: Floats = np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
    return found
