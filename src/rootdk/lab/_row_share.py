r"""The chance that one key holds more than a share t ≥ 1/2 of a row of independent normal scores.

At most one key can, so it is n times the chance that a given one does: that
:math:`Y = \sum_{j \ge 2} e^{s_j}` is below :math:`\kappa e^{s_1}`, :math:`\kappa = (1 - t)/t`. The
indicator is a Laplace integral over :math:`p = e^{y + i\theta}`, a ray at the angle θ and its
mirror image (θ = π/2 is Gil-Pelaez' formula):

.. math::

    P = \frac{\theta}{\pi} + \frac{1}{\pi} \int \operatorname{Im}\left[
    \varphi(y + i\theta)^{n-1}\, \varphi(y + \log\kappa - i(\pi - \theta)) \right] dy,
    \qquad \varphi(y) = E\, e^{-e^{s + y}} .

φ is continued to angles beyond π/2 by moving s off the real line, where the normal density stays
bounded for a distance of its own width. So a wide law allows θ = 0, where nothing oscillates; a
narrow one is kept near π/2. One trapezoidal sum gives 1e-12 (times n, near 1e6 keys).

References: Gil-Pelaez, Biometrika 38 (1951), 481.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from rootdk._lib.errors import ArgumentError
from rootdk._lib.extras import require
from rootdk.lab._quadrature import Floats, Panels, lattice_sums
from rootdk.lab._row_law import FROM, TAIL

__all__ = ["NEGLIGIBLE", "row_share"]

Complex = npt.NDArray[np.complex128]

NEGLIGIBLE = 1e-10
"""A chance whose upper bound is below this is given as 0."""


def row_share(share: float, spread: float, keys: int) -> Floats:
    """Return the chance that the largest weight exceeds a share.

    Parameters
    ----------
    share : float
        From 0.5 up, below 1.
    spread : float
        Standard deviation of the scores.
    keys : int
        How many there are.

    Returns
    -------
    array
        ``(2,)``: the chance, and the same from half the points.

    Raises
    ------
    ArgumentError
        If the share is below 1/2: then more than one key may exceed it.

    Examples
    --------
    Between two keys it is the chance that their scores are log(t/(1 − t)) apart.

    >>> row_share(0.9, 1.0, 2).round(12)
    array([0.12026258, 0.12026258])
    """
    if not 0.5 <= share < 1.0:
        raise ArgumentError.unexpected("share", share, "a number from 0.5 up and below 1")
    if keys == 1:
        return np.ones(2)
    odds = math.log(share / (1.0 - share))
    bound = _upper_bound(odds, spread, keys)
    if bound < NEGLIGIBLE:
        return np.zeros(2)
    if keys == 2:  # the bound is the chance
        return np.full(2, bound)
    turn = min(1.2 * spread, math.pi / 2.0)
    angle = math.pi / 2.0 - turn
    step = max(1.0, spread) / (8.0 if keys <= 1000 else 16.0)
    start = FROM - math.log(keys) - (TAIL * spread if spread > 1.0 else 0.0)
    stop = math.log(-FROM / math.sin(turn)) + TAIL * spread + odds
    points = np.arange(start, stop + step, step)
    others = _transform(points, spread, angle, 0.0)
    one = _transform(points - odds, spread, -angle, -2.0 * turn)
    values = (_power(others, keys - 1) * (1.0 + one)).imag
    chance: Floats = keys * (angle + lattice_sums(values, step)) / math.pi
    return chance


def _upper_bound(odds: float, spread: float, keys: int) -> float:
    """Return a bound: Σ e^s ≥ (n − 1) e^(mean s), so the gap to the mean of the others decides."""
    if spread == 0.0:
        return 0.0
    special = require("scipy.special", extra="lab", purpose="for exact expectations")
    gap = (math.log(keys - 1) + odds) / (spread * math.sqrt(keys / (keys - 1)))
    return float(keys * special.ndtr(-gap))


def _transform(points: Floats, spread: float, angle: float, turn: float) -> Complex:
    """Return φ − 1 at y + i(angle + turn), s moved by ``turn`` off the real line.

    There the normal density is the real one times a factor of s and one of y, of modulus
    exp(turn²/2σ²) together, so that only real exponentials are taken for each pair of them.
    """
    if spread <= 1.0:
        step = 0.2
        nodes = np.arange(-TAIL, TAIL + step, step)
        weights = np.exp(-0.5 * (nodes - 1j * turn / spread) ** 2) * step / _ROOT_OF_TWO_PI
        sizes = np.exp(np.minimum(np.add.outer(points, spread * nodes), -FROM))
        kept = np.exp(-math.cos(angle) * sizes)
        turned = math.sin(angle) * sizes
        inside = _sums(kept * np.cos(turned), weights) - 1j * _sums(kept * np.sin(turned), weights)
        return _at(inside - weights.sum())
    top = math.log(-FROM / math.cos(angle))
    panels = Panels.over(FROM, top, width=2.0)
    nodes, weights = panels.nodes.ravel(), panels.weights.ravel()
    lost = np.expm1(-np.exp(nodes + 1j * angle)) * weights
    lost *= np.exp(1j * turn * nodes / spread**2) / (_ROOT_OF_TWO_PI * spread)
    density = np.exp(-0.5 * (np.subtract.outer(points, nodes) / spread) ** 2)
    moved = np.exp((0.5 * turn**2 - 1j * turn * points) / spread**2)
    return _at(
        _sums(density, lost) * moved - _normal_above(_at((top - points - 1j * turn) / spread))
    )


_ROOT_OF_TWO_PI = math.sqrt(2.0 * math.pi)


def _sums(values: Any, weights: Any) -> Complex:
    # einsum, since a threaded product of matrices could depend on the number of threads
    return _at(np.einsum("yn,n->y", values, weights))


def _power(less_one: Complex, exponent: int) -> Complex:
    """Return (1 + x)^n to nearly full precision also where x is as small as 1/n."""
    special = require("scipy.special", extra="lab", purpose="for exact expectations")
    gone = less_one == -1.0
    logs = special.log1p(np.where(gone, 0.0, less_one))
    return _at(np.where(gone, 0.0, np.exp(exponent * logs)))


def _normal_above(places: Complex) -> Complex:
    """Return the integral of the normal density from a complex place to infinity."""
    special = require("scipy.special", extra="lab", purpose="for exact expectations")
    right = places.real >= 0.0
    argument = np.where(right, places, -places) / math.sqrt(2.0)
    half = 0.5 * np.exp(-argument * argument) * special.wofz(1j * argument)
    return _at(np.where(right, half, 1.0 - half))


def _at(values: Any) -> Complex:
    return np.asarray(values, dtype=np.complex128)
