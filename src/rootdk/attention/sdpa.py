"""Scaled dot-product attention, slow and obvious: what every engine is held against."""

from __future__ import annotations

import math
from typing import Literal, overload

from rootdk._lib.arrays import Array, Namespace, compute_dtype, device, namespace, quiet
from rootdk.attention.arguments import bind_shapes, check_dtypes, check_softcap, resolve_scale
from rootdk.attention.masks import Causal, Window, visibility
from rootdk.attention.softmax import softmax
from rootdk.attention.stages import Stages


@overload
def attention(
    query: Array,
    key: Array,
    value: Array,
    *,
    scale: float | None = None,
    mask: Array | None = None,
    bias: Array | None = None,
    causal: Causal | None = None,
    window: Window | None = None,
    softcap: float | None = None,
    return_stages: Literal[False] = False,
) -> Array: ...


@overload
def attention(
    query: Array,
    key: Array,
    value: Array,
    *,
    scale: float | None = None,
    mask: Array | None = None,
    bias: Array | None = None,
    causal: Causal | None = None,
    window: Window | None = None,
    softcap: float | None = None,
    return_stages: Literal[True],
) -> Stages: ...


def attention(
    query: Array,
    key: Array,
    value: Array,
    *,
    scale: float | None = None,
    mask: Array | None = None,
    bias: Array | None = None,
    causal: Causal | None = None,
    window: Window | None = None,
    softcap: float | None = None,
    return_stages: bool = False,
) -> Array | Stages:
    r"""Return scaled dot-product attention, with the meaning of every option made plain.

    .. math::

        s = scale \cdot q k^\top, \quad
        c = softcap \cdot \tanh(s / softcap), \quad
        w = \mathrm{softmax}(c + bias \text{ where visible}, -\infty \text{ elsewhere}), \quad
        o = w v

    Softmax runs over keys. A query that may attend to no key (an *empty row*) has
    weights 0 and output 0. NaN or infinity in the *value* of a forbidden key reaches the
    output as 0·NaN does in every dense attention; in the query–key product it does not.
    Each query head h uses the key–value head h // (num_heads / num_kv_heads).

    Parameters
    ----------
    query : array
        ``(batch, num_heads, queries, head_dim)``; batch, or batch and heads, may be absent
        from all three alike.
    key : array
        ``(batch, num_kv_heads, keys, head_dim)``; num_heads is a multiple of num_kv_heads.
    value : array
        ``(batch, num_kv_heads, keys, value_dim)``.
    scale : float, optional
        The multiplier of the scores; 1/√head_dim by default.
    mask : boolean array, optional
        True where a query may attend; broadcasts to ``(batch, num_heads, queries, keys)``.
    bias : array, optional
        Added to the scores after scale and softcap; broadcasts as the mask does. −inf
        forbids, whatever the score.
    causal : {"top_left", "bottom_right"}, optional
        Forbid keys past the diagonal, which starts from the first query on the first
        key, or ends with the last query on the last key.
    window : (int or None, int or None), optional
        Keys visible before and after the diagonal (that of ``causal``, or ``top_left``);
        None is open.
    softcap : float, optional
        Bound of the scores, above 0, applied before bias and mask.
    return_stages : bool
        Whether to return the arrays at every stage.

    Returns
    -------
    array or Stages
        The output ``(batch, num_heads, queries, value_dim)`` in the dtype of the query,
        computed in float32 for half types; or every stage of it.

    Raises
    ------
    ShapeError
        If the shapes do not fit; the message holds every dimension's size and origin.
    ArrayError, DtypeError
        If arguments are not arrays of one library, or their dtypes mean nothing.
    ArgumentError
        If scale, causal, window or softcap mean nothing.

    Examples
    --------
    Two keys whose scores differ by log 3 share the output as 1 to 3:

    >>> import numpy as np
    >>> query, key = np.asarray([[1.0]]), np.log(np.asarray([[1.0], [3.0]]))
    >>> attention(query, key, np.asarray([[0.0], [1.0]]), scale=1.0)
    array([[0.75]])

    References
    ----------
    Vaswani et al. 2017, "Attention Is All You Need", equation 1. Softcap: Gemma Team
    2024, "Gemma 2", section 2. Shared key–value heads: Ainslie et al. 2023, "GQA".
    """
    check_dtypes(query, key, value, mask=mask, bias=bias)
    xp = namespace(query, key, value, mask, bias)
    sizes = bind_shapes(query, key, value, mask=mask, bias=bias)
    scale = resolve_scale(scale, sizes["head_dim"].size)
    softcap = check_softcap(softcap)
    visible = visibility(
        sizes["queries"].size, sizes["keys"].size, mask=mask, causal=causal, window=window,
        xp=xp, device=device(query),
    )  # fmt: skip
    with quiet():
        dtype = compute_dtype(query)
        raw = xp.matmul(
            xp.astype(query, dtype),
            xp.matrix_transpose(_one_per_head(xp.astype(key, dtype), query, xp)),
        )
        scaled = raw * scale
        softcapped = scaled if softcap is None else softcap * xp.tanh(scaled / softcap)
        if bias is None:
            summed = softcapped
        else:
            bias = xp.astype(bias, dtype)
            visible = xp.logical_and(visible, bias != -math.inf)
            summed = softcapped + bias
        visible = xp.broadcast_to(visible, raw.shape)
        biased = xp.where(visible, summed, -math.inf)
        weights = softmax(biased)
        mixed = xp.matmul(weights, _one_per_head(xp.astype(value, dtype), query, xp))
        # 0·NaN is NaN, and an empty row is 0 whatever the values hold.
        mixed = xp.where(xp.any(visible, axis=-1, keepdims=True), mixed, 0.0)
        output = xp.astype(mixed, query.dtype)
    if not return_stages:
        return output
    return Stages(
        raw=raw, scaled=scaled, softcapped=softcapped, biased=biased, visible=visible,
        weights=weights, output=output, scale=scale,
    )  # fmt: skip


def _one_per_head(shared: Array, query: Array, xp: Namespace) -> Array:
    """Repeat each key–value head for the query heads that share it."""
    if len(shared.shape) == 2 or shared.shape[-3] == query.shape[-3]:
        return shared
    return xp.repeat(shared, query.shape[-3] // shared.shape[-3], axis=-3)
