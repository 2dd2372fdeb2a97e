"""Rules for the scale: what scores are multiplied by, as a function of the sizes."""

from __future__ import annotations

import re
from typing import Any

from rootdk._lib.errors import ArgumentError
from rootdk._lib.expressions import evaluate

__all__ = ["NAMED", "check_scale", "pretty", "scale_of"]

NAMED = {"none": "1", "twice": "1/d", "standard": "1/sqrt(d)"}
"""Rules with a name of their own. Twice is 1/√d once by hand and once in a library."""

_SIZES = {"d": 64, "d_model": 512, "n": 128}


def scale_of(rule: str, *, head_dim: int, keys: int, num_heads: int = 8) -> float:
    """Return the multiplier that a rule gives.

    Parameters
    ----------
    rule : str
        ``none``, ``standard``, ``twice``, or arithmetic in ``d`` (head_dim), ``d_model``
        (num_heads · head_dim) and ``n`` (keys): ``1/sqrt(d)``, ``1/√d``, ``1/d``, ``d^-0.25``,
        ``1/sqrt(d_model)``, ``1/sqrt(n)``.
    head_dim, keys, num_heads : int
        The sizes.

    Raises
    ------
    ArgumentError
        If it is no such rule.

    Examples
    --------
    >>> scale_of("1/√d", head_dim=64, keys=12), scale_of("d^-0.25", head_dim=16, keys=12)
    (0.125, 0.5)
    """
    written = NAMED.get(rule.strip(), rule)
    written = re.sub(r"√\s*(\w+)", r"sqrt(\1)", written).replace("√(", "sqrt(")
    sizes = {"d": head_dim, "d_model": num_heads * head_dim, "n": keys}
    return evaluate(written.replace("^", "**"), sizes)


def check_scale(rule: Any) -> None:
    """Raise ArgumentError if a rule cannot be read."""
    try:
        scale_of(rule, head_dim=_SIZES["d"], keys=_SIZES["n"])
    except ArgumentError as error:
        raise ArgumentError(f"scale is {rule!r}; expected one of {', '.join(NAMED)}, or arithmetic "
                            f"in d, d_model and n ({error})") from None  # fmt: skip


def pretty(rule: str) -> str:
    """Return a rule as a reader would write it.

    Examples
    --------
    >>> pretty("1/sqrt(d)"), pretty("d^-0.25"), pretty("twice")
    ('1/√d', 'd^-0.25', '1/d')
    """
    written = NAMED.get(rule.strip(), rule)
    return re.sub(r"sqrt\((\w+)\)", r"√\1", written).replace("**", "^")
