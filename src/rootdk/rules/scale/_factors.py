"""Which factors make up a scale, which of them is to blame, and where it stands."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rootdk.records import AttentionSite, Factor, Source
from rootdk.rules.scale._laws import agrees

__all__ = ["Application", "applications", "before_softmax", "describe", "doubled", "guilty"]

_PLACES = ("query", "key", "scores", "kernel", "weights")


@dataclass(frozen=True, kw_only=True)
class Application:
    """One time that a scale was applied: a factor, or equal halves of one on query and key."""

    factors: tuple[Factor, ...]
    when: tuple[int, int, int]

    @property
    def value(self) -> float:
        """What the scores are multiplied by."""
        return math.prod(f.value for f in self.factors if f.value is not None)

    @property
    def source(self) -> Source | None:
        """Where it was completed: the place of its last factor that has one."""
        known = [f.source for f in self.factors if f.source is not None]
        return known[-1] if known else None


def before_softmax(site: AttentionSite) -> tuple[Factor, ...]:
    """Return the factors of any kind that act on the scores."""
    return tuple(f for f in site.factors if f.place != "weights")


def applications(site: AttentionSite) -> tuple[Application, ...]:
    """Return the constant factors before the softmax that are not 1, earliest first.

    Equal factors on query and key whose product is 1/√head_dim are the two halves of one
    scale. What acts on the operands comes before what acts on their product; among equals the
    lines decide, if all stand in one function, and else the order of the record.
    """
    whole = [
        (index, factor)
        for index, factor in enumerate(before_softmax(site))
        if factor.kind == "constant"
        and factor.value is not None
        and not agrees(factor.value, 1.0, site)
    ]
    found: list[Application] = []
    while whole:
        index, factor = whole.pop(0)
        other = next((pair for pair in whole if _are_halves(site, factor, pair[1])), None)
        parts: tuple[Factor, ...] = (factor,)
        if other is not None:
            whole.remove(other)
            index, parts = other[0], (factor, other[1])
        parts = tuple(sorted(parts, key=lambda f: _line(site, f)))
        rank = max(0 if f.place in ("query", "key") else 1 for f in parts)
        when = (rank, max(_line(site, f) for f in parts), index)
        found.append(Application(factors=parts, when=when))
    return tuple(sorted(found, key=lambda application: application.when))


def _line(site: AttentionSite, factor: Factor) -> int:
    """Return the factor's line if all factors stand in one function, where lines tell time."""
    frames = [f.source.frames[0] for f in site.factors if f.source is not None and f.source.frames]
    one_function = len({(frame.file, frame.function) for frame in frames}) == 1
    if not one_function or factor.source is None or not factor.source.frames:
        return 0
    return factor.source.frames[0].line


def _are_halves(site: AttentionSite, one: Factor, other: Factor) -> bool:
    if {one.place, other.place} != {"query", "key"} or one.value is None or other.value is None:
        return False
    return agrees(one.value, other.value, site) and agrees(
        one.value * other.value, site.standard_scale, site
    )


def doubled(site: AttentionSite) -> tuple[Application, Application] | None:
    """Return the two applications of 1/√head_dim, the earlier first, if that is what it is."""
    standard = [a for a in applications(site) if agrees(a.value, site.standard_scale, site)]
    return (standard[0], standard[1]) if len(standard) == 2 else None


def guilty(site: AttentionSite) -> Application | None:
    """Return the application that a deviation is owed to; None when there is no factor.

    The one that is not 1/√head_dim and changes the scale most; the later among equals.
    """
    every = applications(site)
    odd = [a for a in every if not agrees(a.value, site.standard_scale, site)] or list(every)
    return max(odd, key=lambda a: (_size(a.value), a.when), default=None)


def _size(value: float) -> float:
    return round(abs(math.log(abs(value))), 6) if value and math.isfinite(value) else math.inf


def describe(factor: Factor) -> str:
    """Return one factor in words: its value or kind, its place, its origin and its line."""
    value = f"{factor.value:.6g}" if factor.value is not None else "a"
    kind = "" if factor.kind == "constant" else f" {factor.kind} factor"
    origin = f" ({factor.origin})" if factor.origin else ""
    where = f" at {factor.source}" if factor.source is not None else ""
    return f"{value}{kind} on {_ON[factor.place]}{origin}{where}"


_ON = {
    "query": "the query",
    "key": "the key",
    "scores": "the scores",
    "kernel": "the scores inside the kernel",
    "weights": "the weights",
}
