"""What the spread of the scores is made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rootdk._lib.arrays import Array
from rootdk._lib.errors import ArgumentError
from rootdk.engines.call import Call, UnfitError, isolated, prepare
from rootdk.engines.kernels import kernels_of
from rootdk.engines.linear import Parts, may_be_float32, parts_of
from rootdk.stats.block import Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class SpreadParts:
    """The squared spread of the scores of each head, in parts that add up to it.

    Attributes
    ----------
    spread : array of float64, shape (num_heads,)
        The standard deviation of all scores, in nats.
    entries : array of float64, shape (num_heads,)
        What the variation of the entries about their means gives, in nats².
    isotropic : array of float64, shape (num_heads,)
        What entries of the same total variance would give if all varied alike and none with
        another: scale² · head_dim · var q · var k. No part of the sum.
    query_offset, key_offset : array of float64, shape (num_heads,)
        What the mean of the queries, met by keys that vary, gives, and that of the keys.
    between : array of float64, shape (num_heads,)
        What is left: mean scores that differ between the elements of the batch.
    """

    spread: Floats
    entries: Floats
    isotropic: Floats
    query_offset: Floats
    key_offset: Floats
    between: Floats

    @property
    def anisotropy(self) -> Floats:
        """How many times the variance of isotropic entries the entries give, (num_heads,).

        1 where queries and keys vary in no common direction, up to head_dim where each has one
        direction only, the same; below 1 where they avoid each other. NaN where nothing varies.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.isotropic > 0.0, self.entries / self.isotropic, np.nan)


def spread_parts(query: Array, key: Array, *, scale: float | None = None) -> SpreadParts:
    r"""Return what the spread of the scores of each head is made of, without forming a score.

    .. math::

        \sigma^2 = c^2 \left[\langle C_q, C_k \rangle + \mu_q^\top C_k \mu_q
        + \mu_k^\top C_q \mu_k\right]

    with the means μ and the covariances C of queries and keys, and the scale c. It is exact, and
    of every score: each query meets each key. Time is O(n · head_dim²), memory O(n · head_dim).

    Parameters
    ----------
    query : array
        ``(batch, num_heads, queries, head_dim)``, of NumPy or torch; batch, or batch and
        heads, may be absent from both.
    key : array
        ``(batch, num_kv_heads, keys, head_dim)``; num_heads is a multiple of num_kv_heads.
    scale : float, optional
        The multiplier of the scores; 1/√head_dim by default.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    ArrayError, DtypeError
        If arguments are not arrays of one library, or their dtypes mean nothing.
    ArgumentError
        If the scale means nothing, there is no score, or an entry is not finite.

    Examples
    --------
    Entries of size 1 about a mean of 3: most of the spread is made by the means.

    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> parts = spread_parts(random.normal(3, 1, (512, 64)), random.normal(3, 1, (512, 64)))
    >>> [round(float(part[0]), 1) for part in (parts.entries, parts.query_offset, parts.key_offset)]
    [1.0, 9.5, 9.9]
    >>> round(float(parts.spread[0]), 1), round(float(parts.anisotropy[0]), 1)
    (4.5, 1.0)
    """
    call = prepare(
        query,
        key,
        None,
        scale=scale,
        mask=None,
        bias=None,
        causal=None,
        window=None,
        softcap=None,
        segments=None,
        rows=None,
        inputs=None,
        score_dtype=None,
    )
    if not (call.batch and call.queries and call.keys):
        raise ArgumentError(
            f"there is no score: batch {call.batch}, queries {call.queries}, keys {call.keys}; "
            "expected at least one of each"
        )
    with isolated(call):
        found = _parts(call)
    share = call.scale**2 / (call.batch * call.queries * call.keys)
    entries, query_offset, key_offset = (
        share * np.sum(np.maximum(part, 0.0), axis=0)
        for part in (found.entries, found.query_offset, found.key_offset)
    )
    between = call.scale**2 * np.var(found.mean, axis=0)
    return SpreadParts(
        spread=np.sqrt(entries + query_offset + key_offset + between),
        entries=entries,
        isotropic=share * np.sum(found.isotropic, axis=0),
        query_offset=query_offset,
        key_offset=key_offset,
        between=between,
    )


def _parts(call: Call) -> Parts:
    kernels, xp = kernels_of(call.query), call.xp
    for arithmetic in ("float32", "float64") if may_be_float32(call) else ("float64",):
        try:
            found = parts_of(call.query, call.key, call.rows, arithmetic, kernels)
        except UnfitError:
            continue
        if found is not None and np.all(np.isfinite(found.entries + found.isotropic)):
            return found
    for name, array in (("query", call.query), ("key", call.key)):
        if not bool(xp.all(xp.isfinite(array))):
            raise ArgumentError(f"an entry of the {name} is not finite; expected finite entries")
    raise ArgumentError("a sum of products of entries is not finite; expected smaller entries")
