r"""The linear engine: mean and spread of the scores without forming any.

With the mean μ and the scatter C of the queries, of the keys, and c the scale,

.. math::

    \sum (s - \bar s)^2 = c^2 [\langle C_q, C_k\rangle + n_q \mu_q^\top C_k \mu_q
    + n_k \mu_k^\top C_q \mu_k]

and the first two terms are what varies within rows. So the spread takes O(n · head_dim²):
two products of an array with itself. Products run in float32, chunk by chunk, where the
sums of squares then err by less than :data:`rootdk.engines.scatter.ALLOWED` of themselves,
and in float64 otherwise; sums are float64. Where rows see different keys (causal order,
windows, segments, masks that hide no key between visible ones), the scatter of the keys
that a few rows all see grows as they go on: see :mod:`rootdk.engines.ragged`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rootdk._lib.arrays import Array, float_info
from rootdk.engines import compiledsums
from rootdk.engines.call import Call, UnfitError, reduced_precision
from rootdk.engines.entries import SOURCES
from rootdk.engines.fill import Filled
from rootdk.engines.intervals import Interval, intervals
from rootdk.engines.kernels import Kernels, kernels_of
from rootdk.engines.ragged import ragged
from rootdk.engines.scatter import (
    check_finite,
    contract,
    form,
    is_exact_enough,
    pilot_of,
    rounding_of,
    scatter_of,
)
from rootdk.stats.block import Floats, Integers
from rootdk.stats.statistic import Statistic
from rootdk.stats.statistics._moments import moments_of_groups
from rootdk.stats.statistics.counts import Counts
from rootdk.stats.statistics.score_moments import ScoreMoments
from rootdk.stats.statistics.within_rows import WithinRows

SMALL = 2**16
"""Entries up to which float64 is used throughout: the time is all overhead."""

MEASURED = ("counts", "score_moments", "within_rows")
"""The statistics that need no score."""


def refusal(call: Call, names: set[str]) -> str | None:
    """Return why the engine cannot measure this; None if it can, as far as is known."""
    others = sorted(names - set(MEASURED) - set(SOURCES))
    if others:
        return f"{', '.join(others)} cannot be had without forming scores"
    if call.bias is not None:
        return "a bias may hide scores in no order that sums could follow"
    return None


@dataclass(frozen=True, eq=False, kw_only=True)
class Sums:
    """Sums over the unscaled scores of some calls' heads, (batch, heads)."""

    count: Integers
    mean: Floats
    m2: Floats
    within: Floats


def run(call: Call, names: set[str]) -> Filled:
    """Measure the named statistics of a call.

    Raises
    ------
    UnfitError
        If an entry is not finite, or a mask hides keys between visible ones.
    """
    parts = intervals(call)
    states: dict[str, Statistic] = {"counts": _counts(parts, call)}
    ran = f"{call.library}, float64"
    if names & {"score_moments", "within_rows"}:
        sums, ran = _moments(call, parts)
        square = call.scale**2
        count, mean, m2 = moments_of_groups(
            sums.count.T, call.scale * sums.mean.T, square * sums.m2.T
        )
        if "score_moments" in names:
            states["score_moments"] = ScoreMoments(count=count, mean=mean, m2=m2)
        if "within_rows" in names:
            within = square * np.sum(sums.within, axis=0)
            states["within_rows"] = WithinRows(count=count, m2=within)
    return Filled(states=states, engine=f"linear ({ran})")


def _counts(parts: list[Interval], call: Call) -> Counts:
    fields = ("rows", "visible_scores", "empty_rows", "single_key_rows")
    numbers = np.zeros((len(fields), call.num_heads), dtype=np.int64)
    for part in parts:
        seen = part.past - part.first
        of_rows = len(seen), np.sum(seen), np.sum(seen == 0), np.sum(seen == 1)
        elements = part.elements.stop - part.elements.start
        numbers[:, part.heads] += elements * np.asarray(of_rows, dtype=np.int64)[:, None]
    return Counts(**dict(zip(fields, numbers, strict=True)))


def _moments(call: Call, parts: list[Interval]) -> tuple[Sums, str]:
    """Return the sums, and in what library and arithmetic they were taken."""
    if may_be_float32(call):
        compiled: set[bool] = set()
        found = _in(call, parts, "float32", compiled)
        if found is not None:
            names = {True: "numba", False: call.library}
            ran = " and ".join(names[each] for each in sorted(compiled)) or call.library
            return found, f"{ran}, float32 in float64 sums"
    found = _in(call, parts, "float64", set())
    assert found is not None
    return found, f"{call.library}, float64"


def may_be_float32(call: Call) -> bool:
    """Tell whether products in float32 are worth a try."""
    entries = (call.batch * call.num_heads) * (len(call.rows) + call.keys) * call.head_dim
    wide = max(float_info(call.query).bits, float_info(call.key).bits) > 32
    return entries > SMALL and not wide and reduced_precision(call) is None


def _in(call: Call, parts: list[Interval], arithmetic: str, compiled: set[bool]) -> Sums | None:
    """Return the sums in an arithmetic; None if it is not exact enough.

    Whether compiled code took them is added to a set: for some rows it may, for others not.
    """
    shape = (call.batch, call.num_heads)
    sums = Sums(
        count=np.zeros(shape, dtype=np.int64),
        mean=np.zeros(shape),
        m2=np.zeros(shape),
        within=np.zeros(shape),
    )
    kernels, group = kernels_of(call.query), call.queries_per_kv_head
    for part in parts:
        at = (part.elements, part.heads)
        query = call.query[at]
        key = call.key[part.elements, part.heads.start // group : -(-part.heads.stop // group)]
        seen = part.past > part.first
        first, past, rows = part.first[seen], part.past[seen], call.rows[seen]
        if not len(rows):
            continue
        uniform = np.all(first == first[0]) and np.all(past == past[0])
        try:
            if uniform:
                shown = key[:, :, int(first[0]) : int(past[0])]
                found = _uniform(query, shown, rows, arithmetic, kernels)
                compiled.add(compiledsums.takes(query, shown))
            else:
                reach = first, past
                found = ragged(query, key, rows, reach, arithmetic, kernels, compiled)
        except UnfitError:
            if arithmetic == "float64":
                raise
            return None  # a product that float32 cannot hold, perhaps
        if found is None:
            return None
        sums.count[at] = int(np.sum(past - first))
        sums.mean[at], sums.m2[at], sums.within[at] = found
    return sums


def _uniform(
    query: Array, key: Array, rows: Integers, arithmetic: str, kernels: Kernels
) -> tuple[Floats, Floats, Floats] | None:
    """Return mean, squared deviations, and those within rows, where all rows see all keys."""
    found = parts_of(query, key, rows, arithmetic, kernels)
    if found is None:
        return None
    within = np.maximum(found.entries + found.query_offset, 0.0)
    m2 = within + np.maximum(found.key_offset, 0.0)
    check_finite(found.mean, m2)
    return found.mean, m2, within


@dataclass(frozen=True, eq=False, kw_only=True)
class Parts:
    """The three parts of the squared deviations of unscaled scores, (batch, heads): see the module.

    Attributes
    ----------
    mean
        The mean score.
    entries
        What the entries' own variation gives.
    isotropic
        The same, if each entry varied alike, and none with another.
    query_offset, key_offset
        What the means of queries and of keys give.
    """

    mean: Floats
    entries: Floats
    isotropic: Floats
    query_offset: Floats
    key_offset: Floats


def parts_of(
    query: Array, key: Array, rows: Integers, arithmetic: str, kernels: Kernels
) -> Parts | None:
    """Return the parts, where all rows see all keys; None if the arithmetic is not exact enough.

    Parameters
    ----------
    query, key : array, shapes (batch, heads, queries, head_dim), (batch, kv_heads, keys, head_dim)
        Heads that share a key-value head stand together.
    rows : array of int64
        The query rows to measure.
    arithmetic : str
        The dtype of the products.
    kernels
        The library of the arrays.

    Raises
    ------
    UnfitError
        If an entry, or in this arithmetic a product, is not finite.
    """
    of_query = scatter_of(query, rows, pilot_of(query, kernels), arithmetic, kernels)
    every_key = np.arange(int(key.shape[2]))
    of_key = scatter_of(key, every_key, pilot_of(key, kernels), arithmetic, kernels)
    of_key = of_key.per_head(int(query.shape[1]))
    scatters = of_query.about_mean, of_key.about_mean
    traces = [np.trace(each, axis1=-2, axis2=-1) for each in scatters]
    found = Parts(
        mean=np.sum(of_query.mean * of_key.mean, axis=-1),
        entries=contract(*scatters),
        isotropic=traces[0] * traces[1] / max(int(query.shape[-1]), 1),
        query_offset=of_query.count * form(scatters[1], of_query.mean),
        key_offset=of_key.count * form(scatters[0], of_key.mean),
    )
    if arithmetic == "float32":
        error = rounding_of(scatters[0], of_key.sizes) + rounding_of(scatters[1], of_query.sizes)
        error += of_query.count * _rounding_of_form(of_query.mean, of_key.sizes)
        whole = error + of_key.count * _rounding_of_form(of_key.mean, of_query.sizes)
        within = found.entries + found.query_offset
        if not (
            is_exact_enough(error, within) and is_exact_enough(whole, within + found.key_offset)
        ):
            return None
    return found


def _rounding_of_form(mean: Floats, sizes: Floats) -> Floats:
    return rounding_of(mean[..., :, None] * mean[..., None, :], sizes)
