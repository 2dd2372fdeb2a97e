"""The sentences on the scale of a function: what was measured first, then what it should be."""

from __future__ import annotations

import math
from itertools import pairwise

from rootdk.records import Behaviour, ScaleFacts, ScalePoint, Sizes, Varies

__all__ = [
    "against_expected",
    "along",
    "apart",
    "by_argument",
    "by_no_law",
    "by_the_law",
    "impossible",
    "one_factor_each",
]

_SAME = 0.01
_MOST = 4

_BOTH = ": divided by head_dim, or by √head_dim twice, which is the same function"

_ALONG = {
    "key": "key",
    "query": "query",
    "head": "head",
    "batch": "sample of the batch",
    "channel": "channel of head_dim",
}


def impossible(value: float) -> str:
    """Return the sentence for a scale that is wrong in any reading, empty for others."""
    if not math.isfinite(value):
        return f"scores are multiplied by {value}, which leaves no finite score"
    if value == 0.0:
        return "scores are multiplied by 0, so that all visible keys get the same weight"
    if value < 0.0:
        return (
            f"scores are multiplied by {value:.6g}, a negative number: the larger a product, "
            "the smaller its weight"
        )
    return ""


def by_the_law(scale: ScaleFacts, formula: str, others: tuple[str, ...]) -> str:
    """Return the sentence for a law that fits at all sizes."""
    sizes = scale.points[0].sizes
    number = "" if formula == "1" else f" = {scale.value:.6g}"
    more = f"; the numbers also fit {' and '.join(others)}" if others else ""
    both = _BOTH if formula == "1/head_dim" else ""
    standard = _standard(scale.value, sizes)
    return f"scores are multiplied by {formula}{number}, not {standard}{both}{more}"


def by_no_law(scale: ScaleFacts) -> str:
    """Return the sentence for numbers that follow no known law."""
    law = scale.law
    odd = max(scale.points, key=lambda p: abs(math.log(abs(p.scale) * math.sqrt(p.sizes.head_dim))))
    number = f"{odd.scale:.6g}"
    known = law is not None and law.name is not None and law.name != number
    name = f" = {law.name}" if law is not None and known else ""
    start = f"scores are multiplied by {number}{name}, not {_standard(odd.scale, odd.sizes)}"
    values = [p.scale for p in scale.points]
    if max(values) - min(values) <= _SAME * abs(values[0]):
        return f"{start}; it is the same number at all {len(values)} sizes tried"
    seen = {p.sizes.head_dim: p.scale for p in scale.points}
    shown = ", ".join(f"{value:.4g} at {d}" for d, value in sorted(seen.items())[:_MOST])
    return f"{start}; by head_dim it is {shown}"


def against_expected(behaviour: Behaviour, scale: ScaleFacts, readings: tuple[str, ...]) -> str:
    """Return the sentence for a scale that is not the one that was declared."""
    name = f" = {readings[0]}" if readings and readings[0] != "1" else ""
    sizes = scale.points[0].sizes if scale.points else None
    at = "" if sizes is None else f" at head_dim {sizes.head_dim} and {sizes.heads} heads"
    return (
        f"scores are multiplied by {scale.value:.6g}{name}{at}; "
        f"{behaviour.expected.get('scale')} was expected"
    )


def by_argument(name: str, asked: float, acted: float, sizes: Sizes, how: str) -> str:
    """Return the sentence for a scale argument that acts as another number."""
    end = f": {how}" if how else ""
    return (
        f"with {name}={asked:.6g} scores are multiplied by {acted:.6g} at head_dim "
        f"{sizes.head_dim}{end}"
    )


def along(varies: Varies) -> str:
    """Return the sentence for a scale that changes along an axis of the scores."""
    shown = list(zip(varies.at, varies.scales, strict=False))
    if varies.along == "run":
        pairs = ", ".join(f"{scale:.4g} over {at} keys" for at, scale in shown[:_MOST])
        return f"the scale depends on how many keys there are: {pairs}"
    what = _ALONG[varies.along]
    pairs = ", ".join(f"{scale:.4g} at {what} {at}" for at, scale in shown[:_MOST])
    start = f"scores are multiplied by a factor that depends on the {what}: {pairs}"
    return f"{start}{_steps(varies)}" if varies.along == "key" else start


def apart(scale: ScaleFacts) -> str:
    """Return the sentence for a scale that is another one where a size is 1."""
    base = scale.points[0]
    others = ", ".join(_single(point, base.sizes) for point in scale.apart)
    return f"scores are multiplied by {base.scale:.4g} in general, and by {others}"


def _single(point: ScalePoint, base: Sizes) -> str:
    name = next(n for n in SINGLE if getattr(point.sizes, n) == 1 != getattr(base, n))
    return f"{point.scale:.4g} where {name} is 1"


SINGLE = ("queries", "heads", "batch")
"""Sizes that a function may treat apart when they are 1."""


def _steps(varies: Varies) -> str:
    """Say so when the factor grows in equal ratios, as one that is applied again in a loop."""
    steps = [b / a for a, b in pairwise(varies.scales) if a and abs(b / a - 1.0) > _SAME]
    if not steps or max(steps) - min(steps) > _SAME * max(steps):
        return ""
    return f"; each step is a factor of {steps[0]:.4g}, as if it were applied once more a block"


def one_factor_each(varies: Varies) -> str:
    """Return why a factor that differs by channel or head is only noted."""
    return f"each {_ALONG[varies.along]} has a factor of its own, as a learned one has"


def _standard(scale: float, sizes: Sizes) -> str:
    standard = 1.0 / math.sqrt(sizes.head_dim)
    return (
        f"1/√head_dim = {standard:.6g} ({scale / standard:.4g} times it at head_dim "
        f"{sizes.head_dim}, {sizes.heads} heads, {sizes.keys} keys)"
    )
