"""Cells of a table as a person reads them."""

from __future__ import annotations

from typing import Any

__all__ = ["cell"]


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


def _number(value: float) -> str:
    size = abs(value)
    if size >= 1e6 or 0.0 < size < 1e-4:
        return f"{value:.3e}"
    if value == round(value):
        return f"{value:.0f}"
    return f"{value:.{3 if size >= 1.0 else 4}f}"
