"""Softmax, logsumexp and entropy, defined for every row, rows of nothing but −inf too."""

from __future__ import annotations

import math

from rootdk._lib.arrays import Array, Namespace, compute_dtype, namespace, quiet, require_float
from rootdk._lib.errors import ArgumentError


def softmax(x: Array, axis: int = -1) -> Array:
    r"""Return the softmax of an array along one axis.

    .. math:: w_j = \frac{e^{x_j - m}}{\sum_k e^{x_k - m}}, \qquad m = \max_k x_k

    A row that holds nothing but −inf, or nothing at all, is *empty*: its weights are 0,
    and they sum to 0. A row that holds NaN or +inf is NaN throughout.

    Parameters
    ----------
    x : array
        Scores, in any unit of nats. Half types are computed in float32.
    axis : int
        The axis that sums to 1.

    Returns
    -------
    array
        Weights, of the shape and dtype of ``x``.

    Raises
    ------
    ArrayError, DtypeError
        If ``x`` is not an array of floating-point numbers.
    ArgumentError
        If it has no such axis.

    Examples
    --------
    >>> import numpy as np
    >>> softmax(np.log(np.asarray([1.0, 2.0, 5.0])))
    array([0.125, 0.25 , 0.625])
    >>> softmax(np.asarray([-np.inf, -np.inf]))
    array([0., 0.])
    """
    xp, dtype = _prepared("x", x, axis)
    with quiet():
        values = xp.astype(x, dtype)
        highest = _highest(values, axis, xp)
        exponentials = xp.exp(values - xp.where(highest == -math.inf, 0.0, highest))
        total = xp.sum(exponentials, axis=axis, keepdims=True)
        return xp.astype(exponentials / xp.where(total == 0.0, 1.0, total), x.dtype)


def logsumexp(x: Array, axis: int = -1) -> Array:
    r"""Return the natural logarithm of the sum of exponentials along one axis.

    .. math:: L = m + \log \sum_k e^{x_k - m}, \qquad m = \max_k x_k

    A row that holds nothing but −inf, or nothing at all, gives −inf; one that holds
    +inf gives +inf.

    Parameters
    ----------
    x : array
        Scores. Half types are computed in float32.
    axis : int
        The axis that is summed over.

    Returns
    -------
    array
        In nats, of the dtype of ``x``, without the axis.

    Raises
    ------
    ArrayError, DtypeError, ArgumentError
        As for :func:`softmax`.

    Examples
    --------
    >>> import numpy as np
    >>> float(np.exp(logsumexp(np.log(np.asarray([1.0, 2.0, 5.0])))))
    8.0
    """
    xp, dtype = _prepared("x", x, axis)
    with quiet():
        values = xp.astype(x, dtype)
        highest = _highest(values, axis, xp)
        shift = xp.where(xp.isinf(highest), 0.0, highest)
        total = xp.sum(xp.exp(values - shift), axis=axis)
        return xp.astype(xp.log(total) + xp.squeeze(shift, axis=axis), x.dtype)


def entropy_nats(weights: Array, axis: int = -1) -> Array:
    r"""Return the entropy of weights along one axis, in nats.

    .. math:: H = -\sum_j w_j \log w_j, \qquad 0 \log 0 = 0

    The weights are taken as they are, and not normalised again.

    Parameters
    ----------
    weights : array
        Weights that sum to 1 along the axis. Half types are computed in float32.
    axis : int
        The axis that sums to 1.

    Returns
    -------
    array
        In nats, from 0 (one key has all) to the logarithm of the number of keys (all
        have the same), of the dtype of ``weights``, without the axis. NaN for a row
        that sums to 0 (an empty row has no entropy) or holds a negative weight.

    Raises
    ------
    ArrayError, DtypeError, ArgumentError
        As for :func:`softmax`.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.asarray([[1.0, 0.0], [0.5, 0.5], [0.0, 0.0]])
    >>> entropy_nats(rows) / np.log(2.0)
    array([ 0.,  1., nan])
    """
    xp, dtype = _prepared("weights", weights, axis)
    with quiet():
        w = xp.astype(weights, dtype)
        # log of 1 where the weight is 0, so that 0 log 0 is 0; of NaN where it is below.
        safe = xp.where(w > 0.0, w, xp.where(w < 0.0, math.nan, xp.ones_like(w)))
        entropy = 0.0 - xp.sum(w * xp.log(safe), axis=axis)
        total = xp.sum(w, axis=axis)
        return xp.astype(xp.where(total == 0.0, math.nan, entropy), weights.dtype)


def _prepared(argument: str, array: Array, axis: int) -> tuple[Namespace, object]:
    require_float(argument, array)
    rank = len(array.shape)
    if not -rank <= axis < rank:
        raise ArgumentError.unexpected(
            "axis", axis, f"an axis of {argument}, which has {rank} dimensions"
        )
    return namespace(array), compute_dtype(array)


def _highest(values: Array, axis: int, xp: Namespace) -> Array:
    """Return the maximum along the axis, kept; −inf where there is nothing."""
    if values.shape[axis] == 0:
        return xp.sum(values, axis=axis, keepdims=True) - math.inf
    return xp.max(values, axis=axis, keepdims=True)
