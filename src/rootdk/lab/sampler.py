r"""Scores with the law of queries times keys, without the keys: exact in distribution.

The entries of a query and its keys are :math:`q = \mu + \sigma_q u` and
:math:`k = \mu + \sigma_k(\rho u + \sqrt{1 - \rho^2}\, v)`, so a score is a value that all keys of a
query share, plus :math:`\sigma_k \sqrt{1 - \rho^2}\; q \cdot v`. Given the query,

- for normal entries :math:`q \cdot v \sim N(0, \lVert q \rVert^2)`; and Σu and Σu², which give ‖q‖
  and the shared value, are a normal and a χ² (Cochran). Neither a query nor a key is drawn.
- for Rademacher entries v·(entries that are equal) is :math:`2\,\mathrm{Bin}(m, ½) - m`; the query
  is the number m of its entries that are μ + σ_q.
- for other laws queries and keys are drawn, a bounded number at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from rootdk._lib.errors import ArgumentError
from rootdk.lab._entries import Entries, Floats

__all__ = ["MOST_AT_ONCE", "draw_scores"]

MOST_AT_ONCE = 2**14
"""Numbers drawn at once: what becomes of them stays in the cache. A row is never split."""


def draw_scores(
    rng: np.random.Generator, entries: Entries, *, head_dim: int, queries: int, keys: int
) -> Iterator[Floats]:
    """Yield scores before the scale, some rows at a time.

    Parameters
    ----------
    rng : Generator
        Where the numbers come from. The scores depend on nothing else.
    entries : Entries
        Law, sizes, mean and correlation of the entries.
    head_dim : int
        Entries of a query and of a key.
    queries, keys : int
        Rows, and scores of a row; each query has keys of its own.

    Yields
    ------
    array
        ``(rows, keys)``; all of them have ``queries`` rows.

    Raises
    ------
    ArgumentError
        If a size is below 1.

    Examples
    --------
    >>> from rootdk.lab._entries import Law
    >>> signs = Entries(law=Law.read("rademacher"))
    >>> (scores,) = draw_scores(
    ...     np.random.default_rng(0), signs, head_dim=2, queries=1000, keys=3
    ... )
    >>> scores.shape, np.unique(scores).tolist()
    ((1000, 3), [-2.0, 0.0, 2.0])
    """
    for name, size in (("head_dim", head_dim), ("queries", queries), ("keys", keys)):
        if size < 1:
            raise ArgumentError.unexpected(name, size, "a whole number from 1 up")
    draw = _BY_LAW.get(entries.law.name, _by_entries)
    at_once = max(1, MOST_AT_ONCE // keys)
    if draw is _by_entries:
        at_once = max(1, at_once // head_dim)
    for start in range(0, queries, at_once):
        yield draw(rng, entries, head_dim, min(at_once, queries - start), keys)


def _by_normals(
    rng: np.random.Generator, entries: Entries, head_dim: int, rows: int, keys: int
) -> Floats:
    total: Floats = math.sqrt(head_dim) * rng.standard_normal(rows)
    rest = rng.chisquare(head_dim - 1, rows) if head_dim > 1 else np.zeros(rows)
    squares: Floats = total * total / head_dim + rest
    mean, size = entries.mean, entries.query_std
    length = np.sqrt(head_dim * mean**2 + 2.0 * mean * size * total + size**2 * squares)
    scores = rng.standard_normal((rows, keys))
    scores *= (_own_share(entries) * length)[:, None]
    return _with_shared(scores, entries, head_dim, total, squares)


def _by_signs(
    rng: np.random.Generator, entries: Entries, head_dim: int, rows: int, keys: int
) -> Floats:
    total, squares = np.zeros(rows), np.full(rows, float(head_dim))
    if entries.mean == 0.0:  # the signs of the query change no law
        products = entries.query_std * _signs(rng, np.full(rows, head_dim), keys)
    else:
        above = rng.binomial(head_dim, 0.5, rows)
        total += 2 * above - head_dim
        products = (entries.mean + entries.query_std) * _signs(rng, above, keys)
        products += (entries.mean - entries.query_std) * _signs(rng, head_dim - above, keys)
    products *= _own_share(entries)
    return _with_shared(products, entries, head_dim, total, squares)


def _by_entries(
    rng: np.random.Generator, entries: Entries, head_dim: int, rows: int, keys: int
) -> Floats:
    base = entries.law.draw(rng, (rows, head_dim))
    query = entries.mean + entries.query_std * base
    scores = np.empty((rows, keys))
    at_once = max(1, MOST_AT_ONCE // (rows * head_dim))
    for start in range(0, keys, at_once):
        stop = min(start + at_once, keys)
        own = entries.law.draw(rng, (rows, stop - start, head_dim))
        scores[:, start:stop] = np.einsum("rkd,rd->rk", own, query)
    scores *= _own_share(entries)
    return _with_shared(scores, entries, head_dim, base.sum(axis=1), (base**2).sum(axis=1))


_BY_LAW = {"normal": _by_normals, "rademacher": _by_signs}


def _signs(rng: np.random.Generator, counts: npt.NDArray[np.int64], keys: int) -> Floats:
    """Return sums of so many signs, ``(rows, keys)``."""
    above = rng.binomial(counts[:, None], 0.5, (len(counts), keys))
    return (2 * above - counts[:, None]).astype(np.float64)


def _own_share(entries: Entries) -> float:
    return entries.key_std * math.sqrt(1.0 - entries.correlation**2)


def _with_shared(
    scores: Floats, entries: Entries, head_dim: int, total: Floats, squares: Floats
) -> Floats:
    """Add what the keys of a query share: its product with μ + ρ σ_k u."""
    mean = entries.mean
    along = entries.correlation * entries.key_std
    if mean or along:
        shared = head_dim * mean**2 + mean * (entries.query_std + along) * total
        shared += entries.query_std * along * squares
        scores += shared[:, None]
    return scores
