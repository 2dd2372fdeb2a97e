"""Numbers and names as a person reads them in a narrow column."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median

from rootdk.records import AttentionSite, Diagnosis
from rootdk.stats import Summary

__all__ = [
    "compact",
    "finite",
    "fraction",
    "head_shape",
    "head_values",
    "middle",
    "percent",
    "short_names",
    "site_room",
]

_OTHER_COLUMNS = 79
"""What the other columns of the widest table take."""


def compact(value: float | None, digits: int = 3) -> str:
    """Return a number with some significant digits, in at most ``digits + 2`` characters.

    A minus sign and a two-digit exponent may take one more. None is a dash.

    Examples
    --------
    >>> [compact(x) for x in (0.17678, 2.4, 19.83, 1234.5, 123456.0, 0.0001, 0.0, None)]
    ['0.177', '2.40', '19.8', '1234', '1e+05', '1e-04', '0', '–']
    >>> compact(0.17678, 4), compact(-95.2), compact(float("nan")), compact(float("-inf"))
    ('0.1768', '−95.2', 'NaN', '−∞')
    """
    if value is None:
        return "–"
    if math.isnan(value):
        return "NaN"
    sign, size = "−" if value < 0 else "", abs(value)
    if math.isinf(size):
        return f"{sign}∞"
    if size == 0:
        return "0"
    exponent = int(f"{size:.{digits - 1}e}".partition("e")[2])
    if not -3 <= exponent <= digits + 1:
        return f"{sign}{size:.0e}"
    return f"{sign}{size:.{max(0, min(digits - 1 - exponent, digits))}f}"


def percent(share: float | None) -> str:
    """Return a share as a percentage without decimals; a small one that is not 0 as ``<1 %``.

    Examples
    --------
    >>> [percent(x) for x in (0.0, 0.004, 0.554, 1.0, None, float("nan"))]
    ['0 %', '<1 %', '55 %', '100 %', '–', 'NaN']
    """
    if share is None or math.isnan(share):
        return compact(share)
    return "<1 %" if 0 < share < 0.01 else f"{100 * share:.0f} %"


def fraction(share: float | None) -> str:
    """Return a number from 0 to 1 with two decimals.

    Examples
    --------
    >>> [fraction(x) for x in (1.0, 0.126, 0.001, None, float("nan"))]
    ['1.00', '0.13', '0.00', '–', 'NaN']
    """
    if share is None or not math.isfinite(share):
        return compact(share)
    return f"{share:.2f}"


def finite(values: Iterable[float]) -> list[float]:
    """Return the values that are finite numbers."""
    return [value for value in values if math.isfinite(value)]


def middle(values: Sequence[float]) -> float | None:
    """Return the median of the finite values; NaN where none is, None of nothing."""
    return median(finite(values) or [math.nan]) if values else None


def head_values(summary: Summary | None, quantity: str) -> list[float]:
    """Return a quantity head by head; empty where it was not measured."""
    if summary is None or quantity not in summary.quantities:
        return []
    return [float(value) for value in summary[quantity]]


def head_shape(site: AttentionSite) -> str:
    """Return heads × head_dim, such as ``12×32``, or ``9/3×64`` for 9 heads on 3 of keys."""
    shared = "" if site.num_kv_heads == site.num_heads else f"/{site.num_kv_heads}"
    return f"{site.num_heads}{shared}×{site.head_dim}"


def site_room(width: int) -> int:
    """Return how many columns a site's name may take in a report of some width."""
    return max(16, width - _OTHER_COLUMNS)


def short_names(diagnosis: Diagnosis, room: int) -> tuple[dict[str, str], str]:
    """Return a short form of each site's name, and the pattern that the short forms fill.

    Where all names fit, they stay as they are and the pattern is empty. Otherwise the words
    that all begin with go, but for the one before a number; then the words that all end with;
    what is still too long loses its middle.

    Examples
    --------
    >>> from types import SimpleNamespace as Any
    >>> names = [f"encoder.layer.{i}.attention.self" for i in range(2)]
    >>> short_names(Any(sites=[Any(name=name) for name in names]), 12)[1]
    'encoder.….attention.self'
    """
    names = [site.name for site in diagnosis.sites]
    if max(map(len, names), default=0) <= room:
        return {name: name for name in names}, ""
    parts = [name.split(".") for name in names]
    least = min(map(len, parts)) - 1
    start = _common(parts, least)
    if start and any(p[start].isdecimal() for p in parts):
        start -= 1
    rests = [p[start:] for p in parts]
    end = 0
    if max(len(".".join(rest)) for rest in rests) > room:
        end = _common([rest[::-1] for rest in rests], least - start)
    shorts = [".".join(rest[: len(rest) - end]) for rest in rests]
    pattern = ".".join([*parts[0][:start], "…", *parts[0][len(parts[0]) - end :]])
    return {n: _fit(s, room) for n, s in zip(names, shorts, strict=True)}, (
        pattern if start or end else ""
    )


def _common(parts: Sequence[Sequence[str]], most: int) -> int:
    """Return how many words all begin with, at most so many."""
    count = 0
    while count < most and len({part[count] for part in parts}) == 1:
        count += 1
    return count


def _fit(name: str, room: int) -> str:
    if len(name) <= room:
        return name
    head = (room - 1) // 2
    return f"{name[:head]}…{name[len(name) - (room - 1 - head) :]}"
