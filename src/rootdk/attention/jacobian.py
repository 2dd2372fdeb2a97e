"""How far a row of weights moves when its scores do: the Jacobian of softmax."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

from rootdk._lib.arrays import (
    Array,
    Namespace,
    compute_dtype,
    device,
    dtype_name,
    float_info,
    namespace,
    quiet,
    require_float,
)
from rootdk._lib.dimensions import bind
from rootdk._lib.errors import ArgumentError, ShapeError
from rootdk.attention.softmax import logsumexp, softmax

DENSE_KEYS = 1024
"""Rows with more keys than this are refused by :meth:`SoftmaxJacobian.dense`."""


def softmax_jacobian(weights: Array) -> SoftmaxJacobian:
    r"""Return the Jacobian of softmax at each row of weights, without storing it.

    .. math:: J = \frac{\partial w}{\partial s} = \mathrm{diag}(w) - w w^\top

    Parameters
    ----------
    weights : array
        ``(..., keys)``, each row the result of a softmax. Half types are taken to float32;
        what they have lost stays lost, so prefer :meth:`SoftmaxJacobian.from_scores`.

    Returns
    -------
    SoftmaxJacobian
        One Jacobian per row. An empty row (weights 0) has the zero matrix.

    Raises
    ------
    ArrayError, DtypeError, ShapeError
        If the weights are not an array of floating-point numbers with a keys dimension.

    Examples
    --------
    >>> import numpy as np
    >>> jacobian = softmax_jacobian(np.asarray([0.25, 0.75]))
    >>> jacobian.dense()
    array([[ 0.1875, -0.1875],
           [-0.1875,  0.1875]])
    >>> float(jacobian.trace), float(jacobian.spectral_norm), float(jacobian.max_entry)
    (0.375, 0.375, 0.1875)
    """
    return SoftmaxJacobian.from_weights(weights)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class SoftmaxJacobian:
    r"""The Jacobian of softmax at each row, as diag(w) − w wᵀ and never as a matrix.

    Where one weight is close to 1, everything here is about as small as 1 − w_max, which
    a subtraction in float32 returns as 0 once the largest score leads by 17. So it is
    kept apart, as the sum of the other weights, and nothing below subtracts from 1.

    Attributes
    ----------
    weights : array
        ``(..., keys)``; w.
    leader : boolean array
        ``(..., keys)``; True at the row's largest weight, the first of equals.
    complement : array
        ``(...)``; 1 − w_max, without the subtraction.
    log_complement : array
        ``(...)``; its natural logarithm, finite where the complement itself is too small
        for the dtype if it was made from scores. −inf where a row has one key or none.

    Examples
    --------
    >>> import numpy as np
    >>> jacobian = SoftmaxJacobian.from_scores(np.asarray([0.0, -1000.0]))
    >>> float(jacobian.max_entry), float(jacobian.log_complement)
    (0.0, -1000.0)
    """

    weights: Array
    leader: Array
    complement: Array
    log_complement: Array

    @classmethod
    def from_weights(cls, weights: Array) -> Self:
        """Return the Jacobian at rows of weights; see :func:`softmax_jacobian`."""
        xp, weights = _rows("weights", weights)
        with quiet():
            leader = _first_largest(weights, xp)
            complement = xp.sum(xp.where(leader, 0.0, weights), axis=-1)
            log_complement = xp.log(complement)
        return cls(
            weights=weights, leader=leader, complement=complement, log_complement=log_complement
        )

    @classmethod
    def from_scores(cls, scores: Array) -> Self:
        """Return the Jacobian at rows of scores, −inf where a query may not attend.

        Parameters
        ----------
        scores : array
            ``(..., keys)``, what the softmax is taken of. Half types are computed in
            float32.

        Raises
        ------
        ArrayError, DtypeError, ShapeError
            As for :func:`softmax_jacobian`.
        """
        xp, scores = _rows("scores", scores)
        with quiet():
            weights = softmax(scores)
            leader = _first_largest(scores, xp)
            complement = xp.sum(xp.where(leader, 0.0, weights), axis=-1)
            highest = xp.max(xp.where(leader, scores, -math.inf), axis=-1, keepdims=True)
            behind = scores - xp.where(highest == -math.inf, 0.0, highest)
            log_odds = logsumexp(xp.where(leader, -math.inf, behind))
            # The complement is odds / (1 + odds), and odds are not above keys − 1.
            log_complement = log_odds - xp.log1p(xp.exp(log_odds))
        return cls(
            weights=weights, leader=leader, complement=complement, log_complement=log_complement
        )

    @property
    def max_entry(self) -> Array:
        """Largest entry in magnitude, w_max(1 − w_max); ``(...)``, from 0 to 1/4.

        No other entry exceeds it: w(1 − w) rises up to 1/2 and is the same at w and
        1 − w, and the other weights are neither above w_max nor above 1 − w_max.
        """
        with quiet():
            return self._largest * self.complement

    @property
    def trace(self) -> Array:
        """Sum of the diagonal, Σ w(1 − w), which is 1 − Σ w² unless the row is empty."""
        xp, others = self._others
        with quiet():
            return self.max_entry + xp.sum(others * (1.0 - others), axis=-1)

    @property
    def frobenius_norm(self) -> Array:
        r"""Root of the sum of the squared entries; ``(...)``.

        .. math:: \|J\|_F^2 = \sum_i w_i^2 \Big[(1 - w_i)^2 + \sum_{j \ne i} w_j^2\Big]
        """
        xp, others = self._others
        with quiet():
            # Squared relative to the largest entry, so that a small norm does not underflow.
            unit = xp.where(self.max_entry == 0.0, 1.0, self.max_entry)[..., None]
            tail = others / unit
            lead, rest = self._largest, self.complement / unit[..., 0]
            tail_squares = xp.sum(tail**2, axis=-1)
            leading = lead**2 * (rest**2 + tail_squares)
            spread = (1.0 - others) ** 2 + lead[..., None] ** 2
            # Σ_{j≠i} w_j² among the others, as a sum of positive terms less one of them.
            among = xp.sum(others**2, axis=-1, keepdims=True) - others**2
            trailing = xp.sum(tail**2 * (spread + among), axis=-1)
            return unit[..., 0] * xp.sqrt(leading + trailing)

    @property
    def spectral_norm(self) -> Array:
        r"""Largest eigenvalue; ``(...)``, from 0 to 1/2.

        The root λ of the secular equation of the rank-one change w wᵀ to diag(w),

        .. math:: \frac{\lambda - w_{max}(1 - w_{max})}{w_{max} - \lambda}
                  = \sum_{i \ne max} \frac{w_i^2}{\lambda - w_i}

        between the second largest weight and the largest (interlacing), and between
        w_max(1 − w_max) (an entry of the diagonal) and twice that (Gershgorin). Halving
        this interval once per bit of the dtype finds it to about its last bit.

        References
        ----------
        Golub 1973, "Some Modified Matrix Eigenvalue Problems", section 5.
        """
        xp, others = self._others
        with quiet():
            # In units of the largest entry the root lies between 1 and 2, so that nothing
            # here is too small for the dtype, however small the entry.
            entry, largest = self.max_entry, self._largest
            unit = xp.where(entry == 0.0, 1.0, entry)
            others = others / unit[..., None]
            low = xp.maximum(xp.ones_like(unit), xp.max(others, axis=-1))
            high = xp.maximum(xp.minimum(2.0 * xp.ones_like(unit), largest / unit), low)
            for _ in range(float_info(self.weights).bits):
                middle = low + 0.5 * (high - low)
                terms = others * (others / (middle[..., None] - others))
                above = (middle - 1.0) / (largest - entry * middle) > xp.sum(terms, axis=-1)
                low, high = xp.where(above, low, middle), xp.where(above, middle, high)
            return entry * (low + 0.5 * (high - low))

    def matvec(self, v: Array) -> Array:
        r"""Return J v, the change of the weights along a change of the scores.

        .. math:: (J v)_i = w_i \Big(v_i - \sum_j w_j v_j\Big)

        J does not feel a constant, so v is counted from its value at the largest weight:
        the subtraction then loses nothing where that weight is close to 1.

        Parameters
        ----------
        v : array
            ``(..., keys)``, broadcasting against the weights.

        Returns
        -------
        array
            ``(..., keys)``, in the dtype computed in.

        Raises
        ------
        ArrayError, DtypeError, ShapeError
            If ``v`` is not such an array.

        Examples
        --------
        >>> import numpy as np
        >>> softmax_jacobian(np.asarray([0.25, 0.75])).matvec(np.asarray([1.0, 0.0]))
        array([ 0.1875, -0.1875])
        """
        require_float("v", v)
        xp = namespace(self.weights, v)
        bound = bind("weights", self.weights.shape[-1:], "keys")
        bind("v", v.shape[-1:], "keys", bound)
        with quiet():
            v = xp.astype(v, self.weights.dtype)
            origin = xp.sum(xp.where(self.leader, v, 0.0), axis=-1, keepdims=True)
            moved = v - origin
            mean = xp.sum(self.weights * moved, axis=-1, keepdims=True)
            return self.weights * (moved - mean)

    def dense(self, *, max_keys: int = DENSE_KEYS) -> Array:
        """Return the matrices, ``(..., keys, keys)``.

        Parameters
        ----------
        max_keys : int
            The most keys for which to do it: the memory grows with their square.

        Raises
        ------
        ArgumentError
            If there are more keys.
        """
        keys = self.weights.shape[-1]
        if keys > max_keys:
            raise ArgumentError(
                f"rows have {keys} keys; expected at most max_keys, {max_keys}, for a matrix of "
                "keys × keys each (matvec, trace and the norms need none)"
            )
        xp, others = self._others
        with quiet():
            w = self.weights
            diagonal = xp.where(self.leader, self.max_entry[..., None], others * (1.0 - others))
            index = xp.arange(keys, device=device(w))
            on_diagonal = index[:, None] == index[None, :]
            return xp.where(on_diagonal, diagonal[..., None], -w[..., :, None] * w[..., None, :])

    @property
    def _largest(self) -> Array:
        return namespace(self.weights).max(self.weights, axis=-1)

    @property
    def _others(self) -> tuple[Namespace, Array]:
        xp = namespace(self.weights)
        return xp, xp.where(self.leader, 0.0, self.weights)

    def __repr__(self) -> str:
        shape = (*self.weights.shape, self.weights.shape[-1])
        return f"SoftmaxJacobian({shape} {dtype_name(self.weights)})"


def _rows(argument: str, array: Array) -> tuple[Namespace, Array]:
    """Return the rows in the dtype to compute in; refuse rows of no keys."""
    require_float(argument, array)
    shape = tuple(array.shape)
    if not shape or shape[-1] == 0:
        raise ShapeError(f"{argument} has shape {shape}; expected (..., keys), keys at least 1")
    xp = namespace(array)
    return xp, xp.astype(array, compute_dtype(array))


def _first_largest(rows: Array, xp: Namespace) -> Array:
    index = xp.arange(rows.shape[-1], device=device(rows))
    return index == xp.argmax(rows, axis=-1, keepdims=True)
