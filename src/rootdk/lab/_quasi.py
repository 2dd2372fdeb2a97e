"""The mean Frobenius norm of a row's Jacobian, the one quantity that no integral here gives.

The norm is a square root of sums over the keys, which does not factorise. So its mean is taken over
Sobol' points, scrambled several times; the spread of those means is its standard error. What goes
with the norm and is known exactly (its square, w_max(1 − w_max), Σw²) takes most of the error
away: control variates.
"""

from __future__ import annotations

import numpy as np

from rootdk._lib.extras import require
from rootdk.lab._quadrature import Floats
from rootdk.lab._rows import PER_ROW, Mean, rows_shown
from rootdk.lab.exact import NormalRows

__all__ = ["MOST_KEYS", "mean_jacobian_norm"]

SCRAMBLES = 16
POINTS = 2**11
SEED = 0
"""Of the scrambling, always the same: an exact answer does not depend on a seed."""

MOST_KEYS = 4096
"""Of a row for which this is done in seconds."""

_ENTRIES_AT_ONCE = 2**20


def mean_jacobian_norm(rows: NormalRows) -> Mean | None:
    """Return the mean of ‖diag(w) − w wᵀ‖ (Frobenius), or None for more than ``MOST_KEYS`` keys.

    Parameters
    ----------
    rows : NormalRows
        Law of the entries, sizes and scale.

    Returns
    -------
    Mean, optional
        The mean and its standard error.
    """
    if rows.keys > MOST_KEYS:
        return None
    qmc = require("scipy.stats", extra="lab", purpose="for exact expectations").qmc
    engines = [
        qmc.Sobol(rows.keys + 1, rng=np.random.default_rng(seed))
        for seed in np.random.SeedSequence(SEED).spawn(SCRAMBLES)
    ]
    sums = [_sums(one.random(POINTS), rows) for one in engines]
    means, products = (np.array(one) for one in zip(*sums, strict=True))
    known = [rows[name].value for name in CONTROLS]
    half = SCRAMBLES // 2
    parts = []
    for these, others in ((slice(half), slice(half, None)), (slice(half, None), slice(half))):
        # factors from one half are used on the other, so that they bias nothing
        center = means[others].mean(axis=0)
        covariance = products[others].mean(axis=0) - np.outer(center, center)
        factors = np.linalg.lstsq(covariance[1:, 1:], covariance[1:, 0], rcond=None)[0]
        away = np.einsum("sc,c->s", means[these, 1:] - known, factors)
        parts.append(means[these, 0] - away)
    norms = np.concatenate(parts)
    error = np.std(norms, ddof=1) / np.sqrt(SCRAMBLES)
    return Mean(value=float(np.mean(norms)), standard_error=float(error))


def _sums(points: Floats, rows: NormalRows) -> tuple[Floats, Floats]:
    """Return the means of the norm and of the controls, and of their products."""
    special = require("scipy.special", extra="lab", purpose="for exact expectations")
    spreads = rows.spread_at(points[:, 0])
    blocks = np.array_split(np.arange(POINTS), max(1, points.size // _ENTRIES_AT_ONCE))
    shown = np.concatenate([
        rows_shown(spreads[block, None] * special.ndtri(points[block, 1:]))[:, _COLUMNS]
        for block in blocks
    ])  # fmt: skip
    return shown.mean(axis=0), np.einsum("pc,pd->cd", shown, shown) / POINTS


CONTROLS = ("jacobian_squared", "jacobian_max", "squared_weights")
_COLUMNS = [PER_ROW.index(name) for name in ("jacobian_norm", *CONTROLS)]
