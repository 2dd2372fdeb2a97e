"""The laws that a scale can follow, and which of them one number fits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from rootdk.records import AttentionSite

__all__ = [
    "STANDARD",
    "TIE_ORDER",
    "Law",
    "agrees",
    "ambiguous",
    "by_depth",
    "candidates",
    "closed_form",
    "follows_standard",
    "laws",
    "tolerance",
]

STANDARD = "1/√head_dim"

TIE_ORDER = (
    "RDK101",
    "RDK104",
    "RDK102",
    "RDK103",
    "RDK107",
    "RDK105",
    "RDK106",
    "RDK108",
)
"""Where one number fits several laws, the first of these is taken."""

_RELATIVE_TOLERANCE = 1e-3
_PRECISIONS = 4.0

_LARGEST_ROOT = 5000.0**0.5


@dataclass(frozen=True, kw_only=True)
class Law:
    """One way to choose a scale from the sizes of an attention call.

    ``code`` is the rule that names it, None for the standard. ``formula`` is in the words of
    the sizes (``1/√num_heads``), ``shown`` the same with this call's numbers (``1/√12``).
    """

    code: str | None
    formula: str
    shown: str
    value: float

    @property
    def by_length(self) -> bool:
        """Whether the law's value changes with the length of the sequence."""
        return self.code == "RDK105"


def tolerance(site: AttentionSite) -> float:
    """Return the relative tolerance: 1e-3, or four times a stored constant's precision."""
    precision = site.scale_precision
    return max(_RELATIVE_TOLERANCE, _PRECISIONS * precision if precision > 0.0 else 0.0)


def agrees(scale: float | None, value: float, site: AttentionSite) -> bool:
    """Tell whether a scale equals a value, within the site's tolerance."""
    return scale is not None and _near(scale, value, tolerance(site))


def _near(scale: float, value: float, relative: float) -> bool:
    if not (math.isfinite(scale) and math.isfinite(value)):
        return False
    return abs(scale - value) <= relative * abs(value)


def laws(site: AttentionSite) -> Iterator[Law]:
    """Yield the laws with their values at this site, in the order in which ties are broken.

    A width of 1 makes a law say "no factor at all", which is what RDK101 says already, so
    such laws are left out. A length of 1 is kept: another length can tell the two apart.
    """
    sizes = site.head_dim, site.num_heads, site.num_kv_heads, site.hidden or 0
    yield from _of_sizes(*sizes, site.keys, site.queries)
    # Half of head_dim is also the root of many a model's width (1024 for heads of 64), and a
    # width is the likelier slip; so is a division by the depth of the layer.
    d = site.head_dim
    half = Law(code="RDK104", formula="2/head_dim", shown=f"2/{d}", value=2.0 / d)
    if not any(agrees(half.value / site.standard_scale, r, site) for r in by_depth(site).values()):
        yield half
    yield from _inverted(*sizes)


# Calls of one model have the same sizes, and many rules ask for the laws of each.
@lru_cache(maxsize=64)
def _of_sizes(
    d: int, num_heads: int, num_kv_heads: int, hidden: int, keys: int, queries: int
) -> tuple[Law, ...]:
    """Return the laws that come before a half of head_dim."""
    found = [
        _root(None, "head_dim", d),
        Law(code="RDK101", formula="1", shown="1", value=1.0),
        Law(code="RDK104", formula="1/head_dim", shown=f"1/{d}", value=1.0 / d),
    ]
    for formula, size in _widths(d, num_heads, hidden):
        if size > 1:
            found.append(_root("RDK103", formula, size))
    for formula, size in (("num_heads", num_heads), ("num_kv_heads", num_kv_heads)):
        if size > 1:
            found.append(_root("RDK107", formula, size))
    for formula, size in (("keys", keys), ("queries", queries)):
        if size > 0:
            found.append(_root("RDK105", formula, size))
            shown = f"1/{size}"
            found.append(Law(code="RDK105", formula=f"1/{formula}", shown=shown, value=1.0 / size))
    return tuple(found)


def _root(code: str | None, formula: str, size: int) -> Law:
    shown, value = f"1/√{size}", float(size) ** -0.5
    return Law(code=code, formula=f"1/√{formula}", shown=shown, value=value)


def _widths(d: int, num_heads: int, hidden: int) -> tuple[tuple[str, int], ...]:
    return ("(num_heads·head_dim)", num_heads * d), ("hidden", hidden)


@lru_cache(maxsize=64)
def _inverted(d: int, num_heads: int, num_kv_heads: int, hidden: int) -> tuple[Law, ...]:
    of_width = (
        Law(code="RDK106", formula=f"√{formula}", shown=f"√{size}", value=math.sqrt(size))
        for formula, size in _widths(d, num_heads, hidden)
        if size > 1
    )
    return (
        Law(code="RDK106", formula="√head_dim", shown=f"√{d}", value=math.sqrt(d)),
        Law(code="RDK106", formula="head_dim", shown=f"{d}", value=float(d)),
        Law(code="RDK106", formula="head_dim/2", shown=f"{d}/2", value=d / 2.0),
        *of_width,
    )


def by_depth(site: AttentionSite) -> dict[str, float]:
    """Return the ratios to the standard that a division by the depth of the layer gives."""
    if site.layer is None or site.layer < 1:
        return {}
    ratios = {"1/(layer + 1)": 1.0 / (site.layer + 1)}
    if site.layer > 1:
        ratios["1/layer"] = 1.0 / site.layer
    return ratios


def candidates(site: AttentionSite, other_site: AttentionSite | None = None) -> tuple[Law, ...]:
    """Return the laws that the effective scale fits, the likeliest first.

    With ``other_site``, the same call seen at another length, only laws that fit both runs
    stay: a number can be right by coincidence at one length.
    """
    if site.effective_scale is None or site.head_dim < 1:
        return ()
    found = _fitting(site)
    if other_site is not None and other_site.effective_scale is not None:
        also = {law.formula for law in _fitting(other_site)}
        found = tuple(law for law in found if law.formula in also)
    return found


def _fitting(site: AttentionSite) -> tuple[Law, ...]:
    scale, relative = site.effective_scale, tolerance(site)
    if site.head_dim < 1 or scale is None:
        return ()
    return tuple(law for law in laws(site) if _near(scale, law.value, relative))


def ambiguous(site: AttentionSite) -> bool:
    """Tell whether the same call at another length could tell apart what its scale fits.

    True where a law of the length is among several that fit, the standard one included.
    """
    found = candidates(site)
    return any(law.by_length for law in found) and not all(law.by_length for law in found)


def follows_standard(site: AttentionSite) -> bool:
    """Tell whether the effective scale is 1/√head_dim."""
    return site.head_dim > 0 and agrees(site.effective_scale, site.standard_scale, site)


def closed_form(scale: float) -> str | None:
    """Return ``1/√n`` or ``√n`` where the scale is one for a whole number below 5000.

    Examples
    --------
    >>> closed_form(1 / 12), closed_form(3.0), closed_form(0.3)
    ('1/√144', '√9', None)
    """
    if not 1.0 / _LARGEST_ROOT < scale < _LARGEST_ROOT:
        return None
    square = scale**2 if scale >= 1.0 else scale**-2
    if abs(square - round(square)) > 1e-6 * square:
        return None
    return f"√{round(square)}" if scale >= 1.0 else f"1/√{round(square)}"
