"""Cells of a table as a person reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["cell", "moved", "over_widths"]


def cell(value: Any) -> str:
    """Return a cell as text, numbers to about four figures; JSON and CSV have all of them.

    Examples
    --------
    >>> [cell(one) for one in (4, 31.7738, 0.09179, 1.2e-8, None, True, (6.0, 4.0))]
    ['4', '31.774', '0.0918', '1.200e-08', '–', 'yes', '6, 4']
    """
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case int():
            return str(value)
        case float():
            return _number(value)
        case tuple():
            return ", ".join(cell(item) for item in value) or "–"
    return str(value)


def moved(before: float, after: float, digits: int) -> str:
    """Return how a number moves, in words that the printed digits bear out.

    Examples
    --------
    >>> moved(0.609, 0.434, 2), moved(1.0, 1.001, 2), moved(1.0, 2.0, 1)
    ('falls from 0.61 to 0.43', 'stays at 1.00', 'rises from 1.0 to 2.0')
    """
    first, last = f"{before:.{digits}f}", f"{after:.{digits}f}"
    if first == last:
        return f"stays at {first}"
    return f"{'falls' if after < before else 'rises'} from {first} to {last}"


def over_widths(widths: Sequence[int]) -> str:
    """Return the beginning of a sentence on a range of widths.

    Examples
    --------
    >>> over_widths((4, 16, 64)), over_widths((8,))
    ('From head_dim 4 to 64', 'At head_dim 8')
    """
    first, last = widths[0], widths[-1]
    return f"From head_dim {first} to {last}" if first != last else f"At head_dim {first}"


def _number(value: float) -> str:
    size = abs(value)
    if size >= 1e6 or 0.0 < size < 1e-4:
        return f"{value:.3e}"
    if value == round(value):
        return f"{value:.0f}"
    return f"{value:.{3 if size >= 1.0 else 4}f}"
