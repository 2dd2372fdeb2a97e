"""What the arguments of attention must be, checked once at the door.

The shapes, with batch and heads optional:

- query ``(batch, num_heads, queries, head_dim)``
- key ``(batch, num_kv_heads, keys, head_dim)``
- value ``(batch, num_kv_heads, keys, value_dim)``
- mask and bias: whatever broadcasts to ``(batch, num_heads, queries, keys)``
"""

from __future__ import annotations

import math

from rootdk._lib.arrays import Array, dtype_name, is_array, is_bool, require_float
from rootdk._lib.dimensions import NO_BINDINGS, Bindings, bind, shape_error
from rootdk._lib.errors import ArgumentError, ArrayError, DtypeError, ShapeError


def bind_shapes(
    query: Array,
    key: Array,
    value: Array | None = None,
    *,
    mask: Array | None = None,
    bias: Array | None = None,
) -> Bindings:
    """Check that the shapes fit each other and return the size of each named dimension.

    Parameters
    ----------
    query, key, value, mask, bias : array
        As for :func:`rootdk.attention.attention`; only the shapes are looked at.

    Returns
    -------
    mapping of str to Binding
        ``batch`` (4-D only), ``num_heads`` and ``num_kv_heads`` (4-D and 3-D),
        ``queries``, ``keys``, ``head_dim``, and ``value_dim`` if there is a value.

    Raises
    ------
    ShapeError
        Naming the argument, its shape and every dimension bound so far.

    Examples
    --------
    >>> import numpy as np
    >>> bound = bind_shapes(np.zeros((8, 5, 64)), np.zeros((2, 7, 64)))
    >>> {name: binding.size for name, binding in bound.items()}
    {'num_heads': 8, 'queries': 5, 'head_dim': 64, 'num_kv_heads': 2, 'keys': 7}
    """
    rank = len(query.shape)
    if rank not in (2, 3, 4):
        fact = f"query has {rank} dimensions; expected 2 to 4"
        pattern = "[batch] [num_heads] queries head_dim"
        raise shape_error(fact, "query", query.shape, pattern, NO_BINDINGS)
    bound = bind("query", query.shape, _leading("num_heads", rank) + "queries head_dim")
    kv_leading = _leading("num_kv_heads", rank)
    bound = bind("key", key.shape, kv_leading + "keys head_dim", bound)
    _check_heads(key, kv_leading + "keys head_dim", bound)
    if value is not None:
        bound = bind("value", value.shape, kv_leading + "keys value_dim", bound)
    for argument, array in (("mask", mask), ("bias", bias)):
        if array is not None:
            bound = bind(argument, array.shape, scores_pattern(rank), bound)
    return bound


def scores_pattern(rank: int) -> str:
    """Return the pattern of what broadcasts to scores of so many dimensions.

    Examples
    --------
    >>> scores_pattern(3)
    '[1|num_heads] [1|queries] 1|keys'
    """
    words = ["[1|batch]", "[1|num_heads]", "[1|queries]", "1|keys"]
    return " ".join(words[-rank:])


def check_dtypes(
    query: Array,
    key: Array,
    value: Array | None = None,
    *,
    mask: Array | None = None,
    bias: Array | None = None,
) -> None:
    """Refuse dtypes that attention cannot mean anything with.

    Raises
    ------
    ArrayError
        If an argument is not an array.
    DtypeError
        If query, key and value are not of one floating dtype, the mask is not boolean
        or the bias not floating.
    """
    require_float("query", query)
    for argument, array in (("key", key), ("value", value)):
        if array is None:
            continue
        require_float(argument, array)
        if dtype_name(array) != dtype_name(query):
            raise DtypeError(
                f"{argument} has dtype {dtype_name(array)}; "
                f"expected {dtype_name(query)}, the dtype of query"
            )
    if mask is not None:
        check_mask_dtype(mask)
    if bias is not None:
        require_float("bias", bias)


def check_mask_dtype(mask: Array) -> None:
    """Refuse a mask that is not a boolean array.

    Raises
    ------
    ArrayError, DtypeError
        As for :func:`check_dtypes`.
    """
    if not is_array(mask):
        raise ArrayError(f"mask is a {type(mask).__name__}; expected a boolean array")
    if not is_bool(mask):
        raise DtypeError(
            f"mask has dtype {dtype_name(mask)}; expected bool, True where a query may attend "
            "(a term that is added to the scores is a bias)"
        )


def resolve_scale(scale: float | None, head_dim: int) -> float:
    """Return the scale as a number: what was given, or 1/√head_dim.

    Raises
    ------
    ArgumentError
        If the scale is not a finite number.
    ShapeError
        If there is no scale and head_dim is 0, so that 1/√head_dim does not exist.

    Examples
    --------
    >>> resolve_scale(None, 64), resolve_scale(1, 64)
    (0.125, 1.0)
    """
    if scale is None:
        if head_dim == 0:
            raise ShapeError("head_dim is 0; expected at least 1 when no scale is given")
        return 1.0 / math.sqrt(head_dim)
    number = _number("scale", scale, "a finite number, or None for 1/√head_dim")
    if not math.isfinite(number):
        raise ArgumentError.unexpected("scale", number, "a finite number, or None for 1/√head_dim")
    return number


def check_softcap(softcap: float | None) -> float | None:
    """Return the softcap as a number, or None; refuse what is no bound.

    Raises
    ------
    ArgumentError
        If it is not a finite number above 0. No cap is None, never 0.

    Examples
    --------
    >>> check_softcap(50), check_softcap(None)
    (50.0, None)
    """
    if softcap is None:
        return None
    expected = "a finite number above 0, or None for no cap"
    number = _number("softcap", softcap, expected)
    if not (math.isfinite(number) and number > 0.0):
        raise ArgumentError.unexpected("softcap", number, expected)
    return number


def _number(argument: str, value: object, expected: str) -> float:
    # bool is an int to Python; as a scale it is a mistake.
    if not isinstance(value, bool):
        try:
            return float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            pass
    raise ArgumentError.unexpected(argument, value, expected)


def _leading(heads: str, rank: int) -> str:
    return {2: "", 3: f"{heads} ", 4: f"batch {heads} "}[rank]


def _check_heads(key: Array, pattern: str, bound: Bindings) -> None:
    if "num_kv_heads" not in bound:
        return
    num_heads, num_kv_heads = bound["num_heads"].size, bound["num_kv_heads"].size
    if num_kv_heads == 0 or num_heads % num_kv_heads != 0:
        fact = f"num_heads is {num_heads}; expected a multiple of num_kv_heads, {num_kv_heads}"
        raise shape_error(fact, "key", key.shape, pattern, bound)
