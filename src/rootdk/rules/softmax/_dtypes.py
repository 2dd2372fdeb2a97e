"""In which dtypes a function is judged, and where they end."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType

from rootdk._lib.arrays import float_info, is_half
from rootdk._lib.errors import DtypeError
from rootdk.records import Behaviour, PrecisionFacts

__all__ = ["FAR", "OUTCOMES", "exp_end", "exp_overflows_at", "judged_dtypes", "loss_below"]

FAR = 10.0
"""What breaks later than this many times the end of exp does not break in exp."""

OUTCOMES: Mapping[str, str] = MappingProxyType(
    {"nan": "NaN", "inf": "infinity", "zero": "weights of 0", "wrong": "wrong weights"}
)


def exp_overflows_at(dtype: str) -> float:
    """Return the argument at which exp exceeds the largest number of a dtype.

    Examples
    --------
    >>> round(exp_overflows_at("float32"), 2), round(exp_overflows_at("float16"), 2)
    (88.72, 11.09)
    """
    return math.log(float_info(dtype).max)


def exp_end(facts: PrecisionFacts) -> float:
    """Return where exp overflows in a function given a dtype: in that of its output, if wider.

    A factor of float64 makes float64 of float32 scores, and exp then holds out for longer.

    Examples
    --------
    >>> round(exp_end(PrecisionFacts(dtype="float32", output_dtype="float64")), 1)
    709.8
    """
    known = [facts.dtype]
    with suppress(DtypeError):
        if facts.output_dtype is not None and float_info(facts.output_dtype).eps:
            known.append(facts.output_dtype)
    return max(map(exp_overflows_at, known))


def judged_dtypes(behaviour: Behaviour) -> Iterator[PrecisionFacts]:
    """Yield the full dtypes, the narrower first, and the half ones that the caller asked for.

    A function that nobody runs in half precision has no fault there.
    """
    known = sorted(behaviour.precision.values(), key=lambda facts: -float_info(facts.dtype).eps)
    for facts in known:
        if not is_half(facts.dtype) or facts.dtype == behaviour.dtype_asked:
            yield facts


def loss_below(facts: PrecisionFacts) -> float:
    """Return how many of its dtype's precisions the softmax loses, 0 if that is not known."""
    if facts.softmax_error is None:
        return 0.0
    return facts.softmax_error / float_info(facts.dtype).eps
