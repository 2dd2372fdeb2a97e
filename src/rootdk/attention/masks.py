"""Who may attend to whom: masks, causal order and windows as one boolean array.

Query i stands on key i + shift, the *diagonal*. The shift is 0 (``top_left``: the first
query stands on the first key) or keys − queries (``bottom_right``: the last query stands
on the last key, as in decoding with a cache). The two agree for square scores only.
Causal order forbids keys past the diagonal; a window counts its reach from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

from rootdk._lib.arrays import Array, Namespace
from rootdk._lib.dimensions import Binding, bind
from rootdk._lib.errors import ArgumentError
from rootdk.attention.arguments import check_mask_dtype, scores_pattern

Causal: TypeAlias = Literal["top_left", "bottom_right"]
Window: TypeAlias = tuple[int | None, int | None]


def visibility(
    queries: int,
    keys: int,
    *,
    rows: Array | Sequence[int] | None = None,
    mask: Array | None = None,
    causal: Causal | None = None,
    window: Window | None = None,
    xp: Namespace,
    device: Any = None,
) -> Array:
    r"""Return where a query may attend: mask and causal order and window together.

    Query i sees key j when all of these hold, with the shift of the diagonal being
    keys − queries for ``causal="bottom_right"`` and 0 otherwise:

    .. math:: mask_{ij}, \qquad j \le i + shift \text{ if causal}, \qquad
              -left \le j - (i + shift) \le right

    Parameters
    ----------
    queries, keys : int
        The number of each, of the whole scores.
    rows : sequence of int or integer array, optional
        The query rows wanted, in that order; all by default. The mask stays whole, and
        is taken from here.
    mask : boolean array, optional
        True where a query may attend; broadcasts to ``(batch, num_heads, queries, keys)``.
    causal : {"top_left", "bottom_right"}, optional
        Which corner of the scores the diagonal starts from; None for no causal order.
    window : (int or None, int or None), optional
        How many keys before and after the diagonal are visible; None is open. The key
        on the diagonal always is. Without causal order, the diagonal is ``top_left``.
    xp : namespace
        The array API namespace to build the result in.
    device : optional
        The device to build it on.

    Returns
    -------
    boolean array
        ``(rows, keys)``, or with a mask ``(batch, num_heads, rows, keys)`` with as many
        dimensions as the mask has, broadcast ones left at 1.

    Raises
    ------
    ShapeError, DtypeError, ArgumentError
        If the mask does not broadcast or is not boolean; if causal or window mean nothing.

    Examples
    --------
    >>> import numpy as np
    >>> visibility(2, 4, causal="top_left", xp=np).astype(int)
    array([[1, 0, 0, 0],
           [1, 1, 0, 0]])
    >>> visibility(2, 4, causal="bottom_right", window=(1, 0), xp=np).astype(int)
    array([[0, 1, 1, 0],
           [0, 0, 1, 1]])
    """
    left, right = check_window(window)
    if check_causal(causal) is not None:
        right = 0
    shift = diagonal_shift(queries, keys, causal)
    visible = band(
        queries, keys, shift=shift, left=left, right=right, rows=rows, xp=xp, device=device
    )
    if mask is None:
        return visible
    check_mask_dtype(mask)
    bound = {"queries": Binding(queries, "queries"), "keys": Binding(keys, "keys")}
    bind("mask", mask.shape, scores_pattern(4), bound)
    if rows is not None and len(mask.shape) > 1 and mask.shape[-2] != 1:
        mask = xp.take(mask, _indices(rows, xp, device), axis=-2)
    return xp.logical_and(visible, mask)


def band(
    queries: int,
    keys: int,
    *,
    shift: int = 0,
    left: int | None = None,
    right: int | None = None,
    rows: Array | Sequence[int] | None = None,
    xp: Namespace,
    device: Any = None,
) -> Array:
    """Return where a key lies within reach of the diagonal: −left ≤ j − (i + shift) ≤ right.

    Causal order and windows are both bands. For a diagonal that stands elsewhere than
    ``top_left`` and ``bottom_right`` put it, as behind a cache that is longer than what
    it holds.

    Parameters
    ----------
    queries, keys, rows, xp, device
        As for :func:`visibility`.
    shift : int
        The key that query 0 stands on; may be negative, or past the last key.
    left, right : int, optional
        Keys visible before and after the diagonal; None is open.

    Returns
    -------
    boolean array
        ``(rows, keys)``.

    Examples
    --------
    >>> import numpy as np
    >>> band(2, 4, shift=1, left=1, right=0, xp=np).astype(int)
    array([[1, 1, 0, 0],
           [0, 1, 1, 0]])
    """
    i = xp.arange(queries, device=device) if rows is None else _indices(rows, xp, device)
    j = xp.arange(keys, device=device)
    past_diagonal = j[None, :] - (i[:, None] + shift)
    visible = xp.ones(past_diagonal.shape, dtype=xp.bool, device=device)
    if left is not None:
        visible = xp.logical_and(visible, past_diagonal >= -left)
    if right is not None:
        visible = xp.logical_and(visible, past_diagonal <= right)
    return visible


def diagonal_shift(queries: int, keys: int, causal: Causal | None) -> int:
    """Return the key that query 0 stands on.

    Examples
    --------
    >>> diagonal_shift(2, 5, "bottom_right"), diagonal_shift(2, 5, "top_left")
    (3, 0)
    """
    return keys - queries if causal == "bottom_right" else 0


def check_causal(causal: object) -> Causal | None:
    """Return the alignment as given; refuse what names none.

    Raises
    ------
    ArgumentError
        If it is anything but "top_left", "bottom_right" and None. True is refused too:
        the two alignments differ unless queries = keys, and libraries mean either.
    """
    if causal is None or (isinstance(causal, str) and causal in get_args(Causal)):
        return causal  # type: ignore[return-value]
    raise ArgumentError.unexpected(
        "causal", causal, "'top_left', 'bottom_right', or None for no causal order"
    )


def check_window(window: object) -> Window:
    """Return the window as (left, right), both None for no window.

    Raises
    ------
    ArgumentError
        If it is not a pair of numbers of keys, each a whole number from 0 up or None.

    Examples
    --------
    >>> check_window(None), check_window((128, 0))
    ((None, None), (128, 0))
    """
    expected = "(left, right), each a whole number of keys from 0 up, or None for open"
    if window is None:
        return None, None
    if not isinstance(window, (tuple, list)) or len(window) != 2:
        raise ArgumentError.unexpected("window", window, expected)
    left, right = (_reach(side) for side in window)
    if left == -1 or right == -1:
        raise ArgumentError.unexpected("window", window, expected)
    return left, right


def _reach(side: object) -> int | None:
    """Return the number of keys, None for open, −1 for what is neither."""
    if side is None:
        return None
    whole = hasattr(side, "__index__") and not isinstance(side, bool)
    return max(int(side), -1) if whole else -1  # type: ignore[call-overload]


def _indices(rows: Array | Sequence[int], xp: Namespace, device: Any) -> Array:
    indices = xp.asarray(rows, device=device)
    # An empty list says nothing of its dtype, and becomes floats.
    return xp.arange(0, device=device) if indices.shape == (0,) else indices
