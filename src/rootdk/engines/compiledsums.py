"""The linear engine's sums where compiled code is loaded: one pass for each head.

The numbers are those of :mod:`rootdk.engines.scatter` and :mod:`rootdk.engines.ragged`, within
their own estimate of rounding. Whether that is small enough is for the caller to see.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from rootdk._lib.arrays import Array, float_info, to_numpy
from rootdk.engines import compiled
from rootdk.engines.workers import float32_at_least, hired, in_reach
from rootdk.stats.block import Floats, Integers

_PRODUCT = 0.05
"""Nanoseconds that a product of two entries takes one thread, about."""


def takes(*arrays: Array) -> bool:
    """Tell whether compiled code is there, and can read arrays without widening them."""
    return compiled.is_loaded() and all(
        in_reach(array) and float_info(array).bits == 32 and int(array.shape[-1]) > 0
        for array in arrays
    )


def scatters(array: Array, rows: Integers, pilot: Array) -> tuple[Floats, Floats]:
    """Return the sums of rows less a pilot, and of their outer products, in float64.

    Parameters
    ----------
    array : array, shape (batch, heads, rows, head_dim)
        As given, of float32.
    rows : array of int64
        Which of the rows.
    pilot : array, shape (batch, heads, 1, head_dim)
        What the rows are taken about.

    Returns
    -------
    tuple of array, shapes (batch, heads, head_dim) and (batch, heads, head_dim, head_dim)
    """
    from rootdk.engines._numba import scatters as kernels

    entries, about = float32_at_least(array), _pilots(pilot)
    batch, heads, _, depth = entries.shape
    with hired(_PRODUCT * batch * heads * len(rows) * depth * depth) as workers:
        # Heads are shared, and rows of each where there are few.
        parts = 1 if workers.threads == 1 else max(4 * workers.threads // (batch * heads), 1)
        ends = np.linspace(0, len(rows), parts + 1).astype(int).tolist()
        total = np.zeros((parts, batch, heads, depth))
        products = np.zeros((parts, batch, heads, depth, depth))

        def add(task: tuple[int, int, int]) -> None:
            part, place = task[0], task[1:]
            kernels.scatter(
                *(entries[place], rows, ends[part], ends[part + 1], about[place]),
                *(total[task], products[task]),
            )

        list(workers.map(add, itertools.product(range(parts), range(batch), range(heads))))
    return np.sum(total, axis=0), np.sum(products, axis=0)


class CausalSums(NamedTuple):
    """Sums over the scores of rows in causal order, and what is known of their keys after it.

    Attributes
    ----------
    means : array, shape (batch, heads, rows)
        Mean score of each row less the product of the pilots.
    within, error : array, shape (batch, heads)
        Squared deviations within rows, and by how much rounding may have changed them.
    mean, products : array, shapes (batch, kv_heads, head_dim) and (…, head_dim, head_dim)
        Mean of the keys less the pilot, and their scatter.
    """

    means: Floats
    within: Floats
    error: Floats
    mean: Floats
    products: Floats


def causal(
    query: Array,
    rows: Integers,
    chunk: int,
    key: Array,
    begin: int,
    known: tuple[int, Floats, Floats],
    pilots: tuple[Array, Array],
    rounding: float,
) -> CausalSums:
    """Sum over whole chunks of rows that each see one key more than the one before, from key 0 on.

    Parameters
    ----------
    query, key : array, shapes (batch, heads, queries, head_dim), (batch, kv_heads, keys, head_dim)
        As given, of float32; heads that share a key-value head stand together.
    rows : array of int64
        The rows.
    chunk : int
        How many of them, and of their keys, are taken together.
    begin : int
        The key that the first of them sees last.
    known : tuple of int and arrays, shapes (batch, kv_heads, head_dim) and (…, head_dim, head_dim)
        How many keys come before that, their mean less the pilot, and their scatter.
    pilots : tuple of array, shapes (batch, heads, 1, head_dim) and (batch, kv_heads, 1, head_dim)
        What queries and keys are taken about.
    rounding : float
        Relative error of an entry of a scatter.
    """
    from rootdk.engines._numba import scatters as kernels

    queries, keys = float32_at_least(query), float32_at_least(key)
    batch, heads, _, depth = queries.shape
    group = heads // keys.shape[1]
    about_query, about_key = map(_pilots, pilots)
    count, before, scatter = known
    means = np.empty((batch, heads, len(rows)))
    sums = np.zeros((batch, heads, 2))
    mean = np.repeat(before, group, axis=1)
    products = np.repeat(scatter, group, axis=1)

    def add(place: tuple[int, int]) -> None:
        element, head = place
        of_key = element, head // group
        kernels.causal(
            *(queries[place], rows, chunk, keys[of_key], begin, count),
            *(about_query[place], about_key[of_key], rounding),
            *(mean[place], products[place], means[place], sums[place]),
        )

    with hired(3.0 * _PRODUCT * batch * heads * len(rows) * depth * depth) as workers:
        list(workers.map(add, itertools.product(range(batch), range(heads))))
    return CausalSums(
        means=means,
        within=sums[..., kernels.WITHIN],
        error=sums[..., kernels.ERROR],
        mean=mean[:, ::group],
        products=products[:, ::group],
    )


def _pilots(pilot: Array) -> Floats:
    """Return pilots, which are numbers of float32, as such: (batch, heads, head_dim)."""
    return to_numpy(pilot)[:, :, 0].astype(np.float32)
