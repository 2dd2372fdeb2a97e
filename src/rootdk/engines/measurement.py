"""The entry point: measure one attention call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rootdk._lib.arrays import Array
from rootdk.attention.masks import Causal, Window
from rootdk.engines.call import isolated, prepare
from rootdk.engines.entries import entry_states
from rootdk.engines.plan import run
from rootdk.stats.quantity import needed_statistics
from rootdk.stats.quantity import quantities as all_quantities
from rootdk.stats.summary import NOT_ASKED, Summary


def measure(
    query: Array,
    key: Array,
    value: Array | None = None,
    *,
    scale: float | None = None,
    mask: Array | None = None,
    bias: Array | None = None,
    causal: Causal | None = None,
    window: Window | None = None,
    softcap: float | None = None,
    segments: Sequence[int] | None = None,
    quantities: Iterable[str] | None = None,
    rows: int | None = None,
    inputs: Array | None = None,
    score_dtype: Any = None,
    engine: str | None = None,
) -> Summary:
    r"""Measure the scores and weights of one attention call, per head.

    .. math::

        s = scale \cdot q k^\top, \quad
        w = \mathrm{softmax}(softcap \cdot \tanh(s / softcap) + bias \text{ where visible})

    Never holds the scores of all queries at once, changes nothing about its arguments or
    any global state, and records no gradient. A bias of −∞ hides a score; a finite fill
    such as −1e9 hides none, it is a visible score of weight 0, so turn it into a mask
    (``mask = bias > -1e8``) if it stands for one.

    Parameters
    ----------
    query : array
        ``(batch, num_heads, queries, head_dim)``, of NumPy or torch; batch, or batch and
        heads, may be absent from all alike.
    key : array
        ``(batch, num_kv_heads, keys, head_dim)``; num_heads is a multiple of num_kv_heads.
    value : array, optional
        ``(batch, num_kv_heads, keys, value_dim)``; only its entries are measured.
    scale : float, optional
        The multiplier of the scores; 1/√head_dim by default.
    mask : boolean array, optional
        True where a query may attend; broadcasts to ``(batch, num_heads, queries, keys)``.
    bias : array, optional
        Added after scale and softcap; broadcasts as the mask does.
    causal : {"top_left", "bottom_right"}, optional
        Forbid keys past the diagonal that starts, or ends, in that corner.
    window : (int or None, int or None), optional
        Keys visible before and after the diagonal; None is open.
    softcap : float, optional
        Bound of the scores, applied before bias and mask.
    segments : sequence of int, optional
        Where packed sequences begin, and where the last ends, as ``cu_seqlens``: from 0 to
        the number of queries, which is that of keys. A row sees the keys of its own only.
    quantities : iterable of str, optional
        Names of the quantities wanted, all by default. What none of them needs is not
        computed: the spread alone takes time linear in the length.
    rows : int, optional
        Measure so many query rows only, a uniform sample with a fixed seed. Means are
        unbiased; the summary's notes say which numbers are only bounds.
    inputs : array, optional
        What enters the query and key projections, ``(..., hidden)``.
    score_dtype : dtype, optional
        The dtype that the scores have where they are used, for ``headroom``; the dtype
        of the query by default. Nothing is computed in it.
    engine : {"linear", "blocked", "fused", "reference"}, optional
        What computes; by default the cheapest that can. ``summary.engine`` says which did.

    Returns
    -------
    Summary
        Every quantity by name: ``summary["spread"]`` is an array with a value per head.

    Raises
    ------
    ShapeError
        If the shapes do not fit; the message holds every dimension's size and origin.
    ArrayError, DtypeError
        If arguments are not arrays of one library, or their dtypes mean nothing.
    ArgumentError
        If scale, causal, window, softcap, segments, rows, quantities or engine mean nothing.

    Examples
    --------
    Scores of 0 and log 3 give weights of 1/4 and 3/4:

    >>> import numpy as np
    >>> summary = measure(np.ones((1, 1)), np.log([[1.0], [3.0]]), scale=1.0)
    >>> summary["max_weight"]
    array([0.75])
    >>> float(summary["spread"][0])  # half of log 3
    0.549306
    """
    names = set(needed_statistics(quantities))
    call = prepare(
        query,
        key,
        value,
        scale=scale,
        mask=mask,
        bias=bias,
        causal=causal,
        window=window,
        softcap=softcap,
        segments=segments,
        rows=rows,
        inputs=inputs,
        score_dtype=score_dtype,
    )
    with isolated(call):
        filled = run(call, names, engine)
        entries, absent = entry_states(call, names)
    states = {**filled.states, **entries}
    return Summary(
        num_heads=call.num_heads,
        states={name: states[name] for name in sorted(states)},
        scale=call.scale,
        head_dim=call.head_dim,
        score_dtype=call.score_dtype,
        engines=(filled.engine,),
        notes=sample_notes(len(call.rows), call.queries, set(states)),
        absent={name: absent.get(name, NOT_ASKED) for name in names - set(states)},
    )


def sample_notes(measured: int, rows: int, names: set[str]) -> tuple[str, ...]:
    """Return what a sample of rows means for the numbers that it cannot do justice to."""
    if measured == rows:
        return ()
    bounds = [
        f"{name} is {'a lower' if member.bound_when_sampled == 'lower' else 'an upper'} bound"
        for name, member in all_quantities().items()
        if member.bound_when_sampled is not None and set(member.needs) <= names
    ]
    note = f"{measured} of {rows} query rows were measured"
    return (f"{note}: {', '.join(bounds)}" if bounds else note,)
