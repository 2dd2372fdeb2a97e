"""Gauss–Legendre panels, and sums over an even lattice that say how exact they are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from numpy.polynomial import legendre

__all__ = ["ORDER", "Panels", "lattice_sums", "to_the_right"]

Floats = npt.NDArray[np.float64]

ORDER = 16
"""Nodes of a panel: enough for one in which a function turns or falls a few times."""


@dataclass(frozen=True, kw_only=True)
class Panels:
    """Nodes and weights of an integral from start to stop, panel by panel.

    Attributes
    ----------
    nodes, weights : array
        ``(panels, ORDER)``; the weights sum to stop − start.
    """

    nodes: Floats
    weights: Floats

    @classmethod
    def over(cls, start: float, stop: float, *, width: float) -> Panels:
        """Return panels of at most a width.

        Examples
        --------
        >>> panels = Panels.over(0.0, 1.0, width=0.5)
        >>> float((panels.nodes**3 * panels.weights).sum())
        0.25
        """
        count = max(1, math.ceil((stop - start) / width))
        edges = np.linspace(start, stop, count + 1)
        half = np.diff(edges)[:, None] / 2
        nodes, weights = legendre.leggauss(ORDER)
        return cls(nodes=edges[:-1, None] + half * (1 + nodes), weights=half * weights)


@cache
def to_the_right() -> Floats:
    """Return the matrix that takes values at the nodes to their integrals from each node on.

    Row i holds the integrals from node i to 1 of the polynomials that are 1 at one node and
    0 at the others.
    """
    nodes, _ = legendre.leggauss(ORDER)
    polynomials = np.linalg.inv(legendre.legvander(nodes, ORDER - 1))
    antiderivatives = legendre.legint(polynomials, axis=0)
    values: Floats = (
        legendre.legval(1.0, antiderivatives) - legendre.legval(nodes, antiderivatives).T
    )
    return values


def lattice_sums(values: Floats, step: float) -> Floats:
    """Return the integral over an even lattice (trapezoidal rule), by all points and by half.

    For what is analytic and vanishes at both ends the rule converges faster than any power of
    the step, so that the error of the first is far smaller than the difference of the two.

    Parameters
    ----------
    values : array
        ``(points, ...)``.
    step : float
        Between points.

    Returns
    -------
    array
        ``(2, ...)``: by all points, and by every other one.
    """
    return np.stack([step * values.sum(axis=0), 2.0 * step * values[::2].sum(axis=0)])
